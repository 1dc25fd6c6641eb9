// The source of documents for an evaluation of files. This room does not depend on corpus formats,
// so the caller supplies a reader.
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

// Statistics of the files that were read.
struct ReadSummary {
  int64_t num_documents = 0;
  int64_t num_rejected = 0;
  // The first rejected documents, with file, byte offset and reason.
  std::vector<std::string> rejected;
};

// Receives a document: a domain that is safe as a file name, and a text in valid UTF-8.
using TakeDocument = std::function<void(std::string_view domain, std::string_view text)>;

// Passes every document below `paths` to `take`, in the same order each time.
using DocumentReader = std::function<absl::StatusOr<ReadSummary>(std::span<const std::string> paths,
                                                                 const TakeDocument& take)>;

}  // namespace braid

#endif  // BRAID_EVALUATION_DOCUMENT_READER_H_
