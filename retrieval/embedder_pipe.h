// Embedding over a connected socket between two processes of one build: the words of
// braid-embedder (cli/braid_embedder.cc) and its parent (contriever_process.h).
//
//   child:  hello (dimension, fingerprint), or why there is no embedder
//   parent: texts;  child: their vectors, or an error;  and again
//
// A frame is a code, a count, the number of bytes and the bytes, as the machine has them.
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

struct EmbedderHello {
  int32_t dimension = 0;
  std::string fingerprint;
};

// The parent's side. UNAVAILABLE when the other end is gone, and never otherwise; after
// any error but those that the child sent in place of vectors, the connection is not
// usable() any more.
class EmbedderConnection {
 public:
  // Takes the descriptor.
  explicit EmbedderConnection(int socket) : socket_(socket) {}
  EmbedderConnection(const EmbedderConnection&) = delete;
  EmbedderConnection& operator=(const EmbedderConnection&) = delete;
  ~EmbedderConnection();

  // The child's first words. Its error when it has no embedder.
  absl::StatusOr<EmbedderHello> ReceiveHello(const StopCheck& keep_going);

  // Writes vectors and returns how many of the texts were cut. The child's error leaves
  // the connection usable(). INVALID_ARGUMENT for texts of 2 GiB or more together.
  absl::StatusOr<int64_t> Embed(std::span<const std::string_view> texts, std::span<float> vectors,
                                const StopCheck& keep_going);

  bool usable() const { return usable_; }

 private:
  const int socket_;
  bool usable_ = true;
};

// The child's side: says hello for `embedder`, or sends its error, then answers until the
// parent is gone. OK then.
absl::Status ServeEmbedder(int socket, const absl::StatusOr<const Embedder*>& embedder);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDER_PIPE_H_
