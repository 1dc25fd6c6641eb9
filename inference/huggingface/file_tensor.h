// The representation of a parameter in a Hugging Face file.
#ifndef BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_
#define BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/config/parameter_layout.h"

namespace braid {

// A parameter named "...weight_t" is stored transposed in memory; files hold "...weight" with the
// last two dimensions exchanged.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool transposed = false;
};

// Returns the name and shape of a parameter in files.
FileTensor FileTensorOf(const ParameterSpec& parameter);

// Transposes each of the consecutive [rows, columns] matrices in `from`. Requires equal sizes that
// are a multiple of rows * columns.
void TransposeMatrices(std::span<const float> from, int64_t rows, int64_t columns,
                       std::span<float> to);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_
