// Division of texts into messages, and the check of their answers.
#ifndef BRAID_RETRIEVAL_EMBEDDING_BATCH_H_
#define BRAID_RETRIEVAL_EMBEDDING_BATCH_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/embedding.pb.h"

namespace braid {

// Maximum bytes of a request and of an answer; gRPC refuses messages above 4 MiB.
inline constexpr int64_t kMaxEmbeddingMessageBytes = 4'000'000;
// Maximum bytes of a text, before which a message has a tag and a length.
inline constexpr int64_t kMaxEmbeddingTextBytes = kMaxEmbeddingMessageBytes - 6;

// Returns the number of texts in a message whose answer still fits.
int64_t MaxTextsOfBatch(int32_t dimension);

// The texts [begin, end) of a call.
struct EmbeddingBatch {
  size_t begin, end;
};

// Divides texts, in order, into batches of about `target_bytes` and at most `target_texts`; a
// longer text is a batch of its own. A batch begins at each multiple of `target_texts`, so that the
// batches of a group of texts do not depend on the groups before it. INVALID_ARGUMENT for a text
// that does not fit into a message.
absl::StatusOr<std::vector<EmbeddingBatch>> SplitIntoBatches(
    std::span<const std::string_view> texts, int32_t dimension, int64_t target_bytes,
    int64_t target_texts);

// Checks that an answer has a vector of norm 1 or 0 for each of `num_texts` texts and counts at
// most that many of them as truncated. INTERNAL otherwise: the server is at fault, not the corpus,
// so a job tries again and keeps what is embedded.
absl::Status CheckEmbeddingAnswer(const v1::EmbedResponse& answer, int64_t num_texts,
                                  int32_t dimension);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDING_BATCH_H_
