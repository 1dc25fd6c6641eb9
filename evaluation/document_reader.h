// Where the documents of files come from: the trainer knows no corpus formats, so
// whoever starts an evaluation brings a reader.
#ifndef BRAID_EVALUATION_DOCUMENT_READER_H_
#define BRAID_EVALUATION_DOCUMENT_READER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// What was read of some files.
struct ReadSummary {
  int64_t num_documents = 0;
  int64_t num_rejected = 0;
  // The first of them, with file, byte offset and reason.
  std::vector<std::string> rejected;
};

// Receives a document: a file-system safe domain and valid UTF-8.
using TakeDocument = std::function<void(std::string_view domain, std::string_view text)>;

// Hands out every document below `paths`, each time in the same order.
using DocumentReader = std::function<absl::StatusOr<ReadSummary>(std::span<const std::string> paths,
                                                                 const TakeDocument& take)>;

}  // namespace braid

#endif  // BRAID_EVALUATION_DOCUMENT_READER_H_
