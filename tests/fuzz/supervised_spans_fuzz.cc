// spans.npy beside a fixed index.
#include "base/check.h"
#include "formats/indexed_dataset.h"
#include "formats/npy_header.h"
#include "formats/supervised_spans.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(supervised_spans)() {
  const auto file = [](int64_t rows, std::initializer_list<int32_t> values) {
    const std::vector<int64_t> shape = {rows, 4};
    std::string bytes = FormatNpyHeader("<i4", shape);
    for (const int32_t value : values) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return bytes;
  };
  return {file(1, {0, 0, 1, 2}), file(3, {0, 0, 1, 4, 0, 0, 5, 6, 1, 2, 3, 16}), file(0, {})};
}

}  // namespace braid

int FUZZ_INPUT(supervised_spans)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  static const IndexedDataset instances = [] {
    const auto writer = IndexedDatasetWriter::Create(directory.path() / "instances", 100);
    for (int i = 0; i < 2; ++i) {
      BRAID_CHECK((*writer)->AddSequence(std::vector<int32_t>(16, 1)).ok());
      (*writer)->EndDocument();
    }
    BRAID_CHECK((*writer)->Commit().ok());
    return *IndexedDataset::Open(directory.path() / "instances");
  }();
  const auto spans = ReadSpans(directory.Put(kSpansName, AsText(data, size)), instances);
  if (!spans.ok()) return 0;
  // Marks every target, out of bounds if a check is missing.
  std::vector<std::vector<bool>> targets(2, std::vector<bool>(16));
  for (const SupervisedSpan& span : *spans) {
    for (int32_t t = span.answer_begin; t < span.end; ++t) {
      BRAID_CHECK(!targets.at(static_cast<size_t>(span.instance)).at(static_cast<size_t>(t)));
      targets[static_cast<size_t>(span.instance)][static_cast<size_t>(t)] = true;
    }
  }
  BRAID_CHECK(CountExamples(*spans) >= 1);
  return 0;
}
