// The representation of a parameter in a Hugging Face file.
#ifndef BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_
#define BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/model.pb.h"
#include "model/config/parameter_layout.h"

namespace braid {

// A parameter named "...weight_t" is stored transposed in memory; files hold "...weight" with the
// last two dimensions exchanged.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool transposed = false;
  // The part of the parameter that the tensor holds.
  int64_t first = 0;
  int64_t size = 0;
  // The first element of that part in the tensor, transposed if it is. More than 0 only in a tensor
  // that holds several parameters one after the other.
  int64_t place = 0;
};

// Returns the tensors that hold a parameter in files, in the order of its elements. A parameter of
// `resolved` is one tensor, but Mixtral's layout (IsMixtral) has one for each expert, and that of
// GPT-2 has one for q, k and v. The names of GPT-2's begin with "transformer.", unless the files
// have `bare` names. Gates of layers keep their names and shapes.
std::vector<FileTensor> FileTensorsOf(const v1::ModelConfig& resolved,
                                      const ParameterSpec& parameter, bool bare = false);

// The same for all parameters of a model.
std::vector<FileTensor> FileTensorsOf(const v1::ModelConfig& resolved,
                                      const std::vector<ParameterSpec>& layout, bool bare = false);

// Transposes each of the consecutive [rows, columns] matrices in `from`. Requires equal sizes that
// are a multiple of rows * columns.
void TransposeMatrices(std::span<const float> from, int64_t rows, int64_t columns,
                       std::span<float> to);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_
