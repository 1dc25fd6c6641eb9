#include "pipeline/ordering/document_blocks.h"

#include "base/status_macros.h"

namespace braid {
namespace {

constexpr size_t kMostBlockDocuments = 8192;
constexpr size_t kMostBlockBytes = size_t{4} << 20;

// Returns the end of the block that starts at `begin`.
size_t BlockEnd(const DocumentStore& documents, std::span<const uint32_t> numbers, size_t begin) {
  size_t bytes = documents.text(numbers[begin]).size(), end = begin + 1;
  while (end < numbers.size() && end - begin < kMostBlockDocuments) {
    bytes += documents.text(numbers[end]).size();
    if (bytes > kMostBlockBytes) break;
    ++end;
  }
  return end;
}

}  // namespace

absl::Status ForDocumentBlocks(const DocumentStore& documents, std::span<const uint32_t> numbers,
                               const ProgressCallback& progress,
                               const std::function<void(int64_t, int64_t)>& work) {
  const auto n = static_cast<int64_t>(numbers.size());
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    RETURN_IF_ERROR(progress(static_cast<int64_t>(begin), n));
    end = BlockEnd(documents, numbers, begin);
    work(static_cast<int64_t>(begin), static_cast<int64_t>(end));
  }
  return absl::OkStatus();
}

}  // namespace braid
