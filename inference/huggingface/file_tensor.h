// How a parameter of ours stands in a Hugging Face file.
#ifndef BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_
#define BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/config/parameter_layout.h"

namespace braid {

// Parameters called "...weight_t" are kept transposed in memory; files hold
// "...weight" with the last two dimensions the other way round.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool transposed = false;
};

FileTensor FileTensorOf(const ParameterSpec& parameter);

// Transposes each of the consecutive [rows, columns] matrices in `from`.
// Requires equal sizes, a multiple of rows * columns.
void TransposeMatrices(std::span<const float> from, int64_t rows, int64_t columns,
                       std::span<float> to);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_FILE_TENSOR_H_
