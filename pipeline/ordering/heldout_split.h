// The held-out split: which documents are kept out of training, decided per source document.
#ifndef BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_
#define BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_

#include <cstdint>
#include <string_view>

namespace braid {

// Returns the id of the source document of a document, in a corpus whose longer documents ingest
// cut into parts of `split_bytes` (0: none): "<id>" for "<id>#<digits>" if documents were cut; any
// other id itself. (An uncut document with such an id counts as a part, too.)
std::string_view SourceDocument(std::string_view id, int64_t split_bytes);

// Returns whether the source document with this id is held out: whether a hash of (seed, id),
// mapped to [0, 1), is below `fraction`.
//
// Guarantees: a document stays on its side when the corpus grows; a larger fraction holds out every
// document that a smaller one does. A fraction of at most 0 holds out no document, of at least 1
// every document.
bool IsHeldOut(std::string_view source, uint64_t seed, double fraction);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_
