// The held-out split: which documents are kept out of training, decided per source document.
#ifndef BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_
#define BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_

#include <cstdint>
#include <string_view>

namespace braid {

// Returns the id of the source document: "<id>" for a piece "<id>#<digits>" that ingest split off;
// any other id itself.
std::string_view SourceDocument(std::string_view id);

// Returns whether the document with this id is held out: whether a hash of (seed, source document),
// mapped to [0, 1), is below `fraction`.
//
// Guarantees: all pieces of a source document are on the same side; a document stays on its side
// when the corpus grows; a larger fraction holds out every document that a smaller one does. A
// fraction of at most 0 holds out no document, of at least 1 every document.
bool IsHeldOut(std::string_view id, uint64_t seed, double fraction);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_
