// The held-out split, by document.
#ifndef BRAID_PIPELINE_HELDOUT_SPLIT_H_
#define BRAID_PIPELINE_HELDOUT_SPLIT_H_

#include <cstdint>
#include <string_view>

namespace braid {

// Whether the document with this id is held out. Depends on (id, seed) alone, so
// a document keeps its side when the corpus grows; and a larger fraction holds
// out all documents that a smaller one does. fraction <= 0: none, >= 1: all.
bool IsHeldOut(std::string_view id, uint64_t seed, double fraction);

}  // namespace braid

#endif  // BRAID_PIPELINE_HELDOUT_SPLIT_H_
