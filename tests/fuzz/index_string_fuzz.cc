// The FAISS index string of neighbors.index.
#include "retrieval/vector_index.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(index_string)() {
  return {"Flat", "IVF4,Flat", "IVF4,PQ2",   "HNSW4",   "PCA4,Flat", "OPQ2,IVF2,PQ2x4",
          "SQ8",  "LSH",       "IDMap,Flat", "RR8,Flat"};
}

}  // namespace braid

int FUZZ_INPUT(index_string)(const uint8_t* data, size_t size) {
  constexpr int32_t kDimension = 8;
  const auto index = braid::VectorIndex::Create(kDimension, std::string(braid::AsText(data, size)));
  if (index.ok()) (*index)->num_lists();
  return 0;
}
