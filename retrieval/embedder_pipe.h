// The protocol of embedding over a connected socket between two processes of one build:
// braid-embedder (cli/braid_embedder.cc) and its parent (contriever_process.h).
//
//   child:  hello (dimension, fingerprint), or an error if there is no embedder
//   parent: texts;  child: their vectors, or an error;  repeated
//
// A frame is a code, a count, the number of bytes and the bytes, in the byte order of the machine.
#ifndef BRAID_RETRIEVAL_EMBEDDER_PIPE_H_
#define BRAID_RETRIEVAL_EMBEDDER_PIPE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/embedder.h"
#include "retrieval/parallel_for.h"

namespace braid {

// The first message of the child.
struct EmbedderHello {
  int32_t dimension = 0;
  std::string fingerprint;
};

// The connection of the parent. UNAVAILABLE if and only if the other end is closed. After any error
// other than those that the child sent instead of vectors, the connection is no longer usable().
class EmbedderConnection {
 public:
  // Takes ownership of the descriptor.
  explicit EmbedderConnection(int socket) : socket_(socket) {}
  EmbedderConnection(const EmbedderConnection&) = delete;
  EmbedderConnection& operator=(const EmbedderConnection&) = delete;
  ~EmbedderConnection();

  // Receives the first message of the child; returns its error if it has no embedder.
  absl::StatusOr<EmbedderHello> ReceiveHello(const StopCheck& keep_going);

  // Writes vectors and returns how many of the texts were truncated. An error sent by the child
  // leaves the connection usable(). INVALID_ARGUMENT for texts of 2 GiB or more in total.
  absl::StatusOr<int64_t> Embed(std::span<const std::string_view> texts, std::span<float> vectors,
                                const StopCheck& keep_going);

  bool usable() const { return usable_; }

 private:
  const int socket_;
  bool usable_ = true;
};

// Serves the parent from the child: sends the description of `embedder`, or its error, then answers
// requests until the parent closes the connection, and returns OK.
absl::Status ServeEmbedder(int socket, const absl::StatusOr<const Embedder*>& embedder);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDER_PIPE_H_
