#include "base/check.h"
#include "formats/safetensors_header.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(safetensors)() {
  const auto placed = PlaceTensors({{"w", DType::kF32, {2, 3}},
                                    {"b", DType::kBF16, {5}},
                                    {"s", DType::kU8, {}},
                                    {"e", DType::kF64, {0}}});
  return {
      *FormatSafetensorsHeader(*placed, {{"format", "pt"}, {"step", "480"}}) + std::string(35, 'x'),
      *FormatSafetensorsHeader({}, {})};
}

}  // namespace braid

int FUZZ_INPUT(safetensors)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  const auto header = ParseSafetensorsHeader(AsText(data, size), "fuzz");
  if (!header.ok()) return 0;
  for (const PlacedTensor& tensor : header->tensors) {
    BRAID_CHECK(0 <= tensor.begin && tensor.begin <= tensor.end) << tensor.info.name;
    BRAID_CHECK(header->data_offset + tensor.end <= static_cast<int64_t>(size));
    const auto bytes = TensorBytes(tensor.info);
    BRAID_CHECK(bytes.ok() && *bytes == tensor.end - tensor.begin) << tensor.info.name;
  }
  return 0;
}
