// The parts of the input are the .idx and the .bin file.
#include "base/check.h"
#include "formats/indexed_dataset.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

std::string DatasetSeed(int64_t vocab_size) {
  const FuzzDirectory directory;
  auto writer = *IndexedDatasetWriter::Create(directory.path() / "d", vocab_size);
  BRAID_CHECK(writer->AddSequence(std::vector<int32_t>{1, 2, 3}).ok());
  BRAID_CHECK(writer->AddSequence(std::vector<int32_t>{}).ok());
  writer->EndDocument();
  BRAID_CHECK(writer->AddSequence(std::vector<int32_t>{4, 5}).ok());
  BRAID_CHECK(writer->Commit().ok());
  return JoinParts({directory.Get("d.idx"), directory.Get("d.bin")});
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(indexed_dataset)() {
  return {DatasetSeed(100), DatasetSeed(100'000)};
}

}  // namespace braid

int FUZZ_INPUT(indexed_dataset)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  const std::vector<std::string> parts = SplitParts(AsText(data, size), 2);
  directory.Put("d.idx", parts[0]);
  directory.Put("d.bin", parts[1]);
  const auto dataset = IndexedDataset::Open(directory.path() / "d");
  if (!dataset.ok()) return 0;
  for (int64_t i = 0; i < std::min<int64_t>(dataset->num_sequences(), 1000); ++i) {
    BRAID_CHECK(std::ssize(dataset->Read(i)) == dataset->sequence_length(i)) << i;
  }
  for (int64_t i = 0; i <= std::min<int64_t>(dataset->num_documents(), 1000); ++i) {
    BRAID_CHECK(dataset->document_begin(i) <= dataset->num_sequences()) << i;
  }
  BRAID_CHECK(dataset->num_tokens() >= 0);
  return 0;
}
