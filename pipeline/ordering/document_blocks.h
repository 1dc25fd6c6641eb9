// Passes over the texts of many documents, in blocks that take little time.
#ifndef BRAID_PIPELINE_ORDERING_DOCUMENT_BLOCKS_H_
#define BRAID_PIPELINE_ORDERING_DOCUMENT_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"

namespace braid {

// Calls work(begin, end) for consecutive blocks of `numbers`, of at most 8,192 documents and 4 MiB
// of text, or of one longer document. Calls progress(begin, numbers.size()) before each block and
// returns its first error.
absl::Status ForDocumentBlocks(const DocumentStore& documents, std::span<const uint32_t> numbers,
                               const ProgressCallback& progress,
                               const std::function<void(int64_t, int64_t)>& work);

// Returns the grain with which ParallelFor keeps all threads busy in a block of `count` documents.
constexpr int64_t DocumentGrain(int64_t count) { return std::clamp<int64_t>(count / 16, 1, 256); }

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_DOCUMENT_BLOCKS_H_
