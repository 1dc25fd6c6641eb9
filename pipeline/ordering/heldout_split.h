// The held-out split, by source document.
#ifndef BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_
#define BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_

#include <cstdint>
#include <string_view>

namespace braid {

// The id of the document that "<id>#<digits>" is a piece of; other ids are their
// own source.
std::string_view SourceDocument(std::string_view id);

// Whether the document with this id is held out. Depends on the source document
// and the seed alone: pieces of one document are on one side, a document keeps
// its side when the corpus grows, and a larger fraction holds out all documents
// that a smaller one does. fraction <= 0: none, >= 1: all.
bool IsHeldOut(std::string_view id, uint64_t seed, double fraction);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_HELDOUT_SPLIT_H_
