// The tensors of a BERT encoder: which must exist, the names under which files store them, and
// their values. Does not use a tensor library.
#ifndef BRAID_RETRIEVAL_CONTRIEVER_WEIGHTS_H_
#define BRAID_RETRIEVAL_CONTRIEVER_WEIGHTS_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/safetensors_header.h"
#include "formats/weight_files.h"
#include "retrieval/contriever_config.h"

namespace braid {

// Returns name and shape of every tensor of the encoder, linear weights as [out, in], for example
// "encoder.layer.0.intermediate.dense.weight" [F, D].
std::vector<TensorInfo> ContrieverTensors(const ContrieverConfig& config);

// The opened files. Thread-safe.
class ContrieverWeights {
 public:
  // Opens model.safetensors, or the shards of model.safetensors.index.json, and checks that the
  // tensors are those of `config`. Names may begin with "bert.", as in plain BERT models, and use
  // LayerNorm.gamma and .beta, as in old files. A pooler, the heads of pre-training (cls.*) and the
  // position_ids buffer are ignored.
  //
  // Errors: NOT_FOUND if there are no such files (pickled weights, pytorch_model.bin, are never
  // read; the message explains how to convert them); INVALID_ARGUMENT names a tensor that is
  // missing, unknown, repeated, or of another shape or element type; DATA_LOSS for damage.
  static absl::StatusOr<ContrieverWeights> Open(const std::filesystem::path& directory,
                                                const ContrieverConfig& config);

  // Reads the row-major values of a tensor of ContrieverTensors, as many as it has.
  // INVALID_ARGUMENT for a value that is not finite.
  absl::Status Read(const std::string& name, std::span<float> values) const;

  // Returns 32 hexadecimal digits: XXH3-128 of names, types, shapes and values in the order of the
  // names. The division into files does not matter.
  absl::StatusOr<std::string> Digest() const;

 private:
  ContrieverWeights(WeightFiles files, std::map<std::string, std::string> stored)
      : files_(std::move(files)), stored_(std::move(stored)) {}

  WeightFiles files_;
  std::map<std::string, std::string> stored_;  // name in the files, by name
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_WEIGHTS_H_
