// A BERT encoder with pooling on LibTorch: from token ids to one vector per text.
//
//   e = LN(word[id] + position[t] + type[0])
//   each layer: e = LN(e + Wo MHA(e) + b);  e = LN(e + W2 gelu(W1 e + b1) + b2)
//   vector = mean of the last e over the tokens of the text, including [CLS] and [SEP], or the last
//   e
//            of [CLS] or of the last token
//
// (Devlin et al., arXiv 1810.04805; pooling: Izacard et al., arXiv 2112.09118.)
#ifndef BRAID_RETRIEVAL_CONTRIEVER_MODEL_H_
#define BRAID_RETRIEVAL_CONTRIEVER_MODEL_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/contriever_config.h"
#include "retrieval/contriever_weights.h"

namespace braid {

// Sets the number of threads of the tensor library and its BLAS for the whole process.
void SetContrieverThreads(int num_threads);

// The encoder. Thread-safe. Holds the weights in fp32, whatever the element type of the files.
class ContrieverModel {
 public:
  // Errors: RESOURCE_EXHAUSTED if memory for the weights is short, and those of reading them.
  static absl::StatusOr<std::unique_ptr<ContrieverModel>> Load(const ContrieverConfig& config,
                                                               const ContrieverWeights& weights);
  ~ContrieverModel();

  // Embeds a batch of B texts of at most T tokens by `pooling` and writes `pooled` [B, D]. `ids` is
  // [B, T], row-major; the first lengths[b] of row b belong to the text, the others may be any
  // valid ids. Requires 1 <= lengths[b] <= T <= max_position_embeddings and ids below V. Errors:
  // RESOURCE_EXHAUSTED if memory is short, INTERNAL for other errors of the tensor library.
  absl::Status Pool(std::span<const int32_t> ids, std::span<const int32_t> lengths, Pooling pooling,
                    std::span<float> pooled) const;

 private:
  struct Tensors;
  ContrieverModel(const ContrieverConfig& config, std::unique_ptr<const Tensors> tensors);

  const ContrieverConfig config_;
  const std::unique_ptr<const Tensors> tensors_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_MODEL_H_
