// A BERT encoder with mean pooling, on LibTorch: token ids in, one vector a text out.
//
//   e = LN(word[id] + position[t] + type[0])
//   each layer: e = LN(e + Wo MHA(e) + b);  e = LN(e + W2 gelu(W1 e + b1) + b2)
//   vector = mean of the last e over the text's tokens, [CLS] and [SEP] included
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

// Threads of the tensor library and its BLAS, in the whole process.
void SetContrieverThreads(int num_threads);

enum class ContrieverDevice {
  kCpu,
  // A GPU where the tensor library sees one. Not tested.
  kAuto,
};

// Thread-safe. Holds the weights in fp32, whatever the files have.
class ContrieverModel {
 public:
  // RESOURCE_EXHAUSTED without memory for the weights, and the errors of reading them.
  static absl::StatusOr<std::unique_ptr<ContrieverModel>> Load(const ContrieverConfig& config,
                                                               const ContrieverWeights& weights,
                                                               ContrieverDevice device);
  ~ContrieverModel();

  // A batch of B texts of at most T tokens. `ids` is [B, T], row-major; of row b the
  // first lengths[b] are the text's, the others any valid ids. Writes [B, D].
  // Requires 1 <= lengths[b] <= T <= max_position_embeddings and ids below V.
  // RESOURCE_EXHAUSTED without memory, INTERNAL for other errors of the tensor library.
  absl::Status Pool(std::span<const int32_t> ids, std::span<const int32_t> lengths,
                    std::span<float> pooled) const;

 private:
  struct Tensors;
  ContrieverModel(const ContrieverConfig& config, std::unique_ptr<const Tensors> tensors);

  const ContrieverConfig config_;
  const std::unique_ptr<const Tensors> tensors_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_MODEL_H_
