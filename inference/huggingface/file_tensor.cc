#include "inference/huggingface/file_tensor.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace braid {
namespace {

constexpr std::string_view kTransposed = "weight_t";
// Rows and columns of a block that fits into the cache.
constexpr int64_t kBlock = 32;

void TransposeBlock(const float* from, int64_t rows, int64_t columns, int64_t row, int64_t column,
                    float* to) {
  const int64_t last_row = std::min(row + kBlock, rows);
  const int64_t last_column = std::min(column + kBlock, columns);
  for (int64_t i = row; i < last_row; ++i) {
    for (int64_t j = column; j < last_column; ++j) to[j * rows + i] = from[i * columns + j];
  }
}

}  // namespace

FileTensor FileTensorOf(const ParameterSpec& parameter) {
  FileTensor tensor{parameter.name, parameter.shape, parameter.name.ends_with(kTransposed)};
  if (!tensor.transposed) return tensor;
  BRAID_CHECK(tensor.shape.size() >= 2) << parameter.name;
  tensor.name.resize(tensor.name.size() - 2);
  std::swap(tensor.shape.end()[-1], tensor.shape.end()[-2]);
  return tensor;
}

void TransposeMatrices(std::span<const float> from, int64_t rows, int64_t columns,
                       std::span<float> to) {
  const auto size = static_cast<size_t>(rows * columns);
  BRAID_CHECK(from.size() == to.size() && size > 0 && from.size() % size == 0)
      << from.size() << " " << to.size() << " " << rows << " " << columns;
  for (size_t begin = 0; begin < from.size(); begin += size) {
    for (int64_t row = 0; row < rows; row += kBlock) {
      for (int64_t column = 0; column < columns; column += kBlock) {
        TransposeBlock(&from[begin], rows, columns, row, column, &to[begin]);
      }
    }
  }
}

}  // namespace braid
