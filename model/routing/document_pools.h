// The pool of experts of a document (TokenRouting.document_pool; EMO, arXiv 2605.06663, made
// causal): its first S tokens choose from all experts, and later ones from the P experts with the
// highest mean probability over these S tokens. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_DOCUMENT_POOLS_H_
#define BRAID_MODEL_ROUTING_DOCUMENT_POOLS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/model.pb.h"

namespace braid {

// The pools of the documents of one sequence that grows.
class DocumentPools {
 public:
  // `config` is resolved and has a document_pool.
  explicit DocumentPools(const v1::RoutingConfig& config);

  // Appends a position with the gate's probabilities [N], the first one of a document when `begins`
  // is true or the sequence is empty. Returns the experts that it must not choose, which are valid
  // until the next call; none for the first S positions of a document. Ties go to the lowest index.
  std::span<const int32_t> Append(bool begins, std::span<const float> probabilities);

  // Removes the positions from `position` on. Requires 0 <= position <= position().
  void Truncate(int64_t position);

  int64_t position() const { return position_; }
  // Returns whether a document other than the first begins at `position`, one of those appended.
  bool BeginsDocument(int64_t position) const;

 private:
  struct Document {
    int64_t begin = 0;
    std::vector<float> probabilities = {};  // [at most S, N], of its first positions
    std::vector<int32_t> absent = {};       // empty until a position after them
  };

  std::vector<int32_t> AbsentExperts(const Document& document) const;

  int64_t segment_length_, pool_, num_experts_;
  int64_t position_ = 0;
  std::vector<Document> documents_;
};

// Returns the scores [T, N] with minus infinity for the experts that each of T positions must not
// choose. Position t begins a document where begins[t] is not 0. Appends the positions to `pools`.
at::Tensor PooledScores(const at::Tensor& scores, std::span<const uint8_t> begins,
                        DocumentPools* pools);

// The same for whole sequences: scores [B * L, N], starts [B, L] int32 with the first position of
// each token's document.
at::Tensor PooledScores(const at::Tensor& scores, const at::Tensor& starts,
                        const v1::RoutingConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_DOCUMENT_POOLS_H_
