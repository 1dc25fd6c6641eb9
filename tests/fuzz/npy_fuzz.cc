#include "base/check.h"
#include "formats/npy.h"
#include "formats/npy_header.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(npy)() {
  const std::vector<int64_t> matrix = {2, 3}, scalar = {}, empty = {0, 7},
                             vast = {0, int64_t{1} << 40, int64_t{1} << 40};
  return {FormatNpyHeader("<f4", matrix) + std::string(24, 'x'),
          FormatNpyHeader("<f4", scalar) + std::string(4, 'x'),
          FormatNpyHeader("<f4", empty),
          FormatNpyHeader("<f4", vast),
          FormatNpyHeader("<i8", matrix) + std::string(48, 'x'),
          FormatNpyHeader("<f4", std::vector<int64_t>(20000, 1)) + std::string(4, 'x')};
}

}  // namespace braid

int FUZZ_INPUT(npy)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  const auto header = ParseNpyHeader(AsText(data, size), "fuzz");
  if (!header.ok()) return 0;
  BRAID_CHECK(header->data_offset > 0 && header->data_offset <= static_cast<int64_t>(size));
  const auto array = NpyArray<float>::Open(directory.Put("fuzz.npy", AsText(data, size)));
  if (!array.ok()) return 0;
  BRAID_CHECK(array->num_rows() * array->row_size() == std::ssize(array->values()));
  float sum = 0;
  for (int64_t row = 0; row < std::min<int64_t>(array->num_rows(), 1000); ++row) {
    for (const float value : array->row(row)) sum += value;
  }
  [[maybe_unused]] volatile float used = sum;
  return 0;
}
