// braid-embedder: computes the vectors of a BERT encoder for the process that started it
// (retrieval/contriever_process.h), over the socket that is its standard input.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "base/blas_core.h"
#include "cli/child_arguments.h"
#include "retrieval/contriever_embedder.h"
#include "retrieval/embedder_pipe.h"

namespace {

bool IsSocket(int descriptor) {
  int type = 0;
  socklen_t size = sizeof(type);
  return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

// Exits when the parent closes the socket, without finishing the current batch.
void EndWithParent(int socket) {
  std::thread([socket] {
    pollfd parent = {.fd = socket, .events = POLLRDHUP, .revents = 0};
    while (poll(&parent, 1, -1) <= 0) continue;
    _exit(0);
  }).detach();
}

absl::StatusOr<const braid::Embedder*> Load(const braid::ContrieverOptions& options,
                                            int num_threads,
                                            std::unique_ptr<braid::ContrieverEmbedder>* loaded) {
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  braid::SetContrieverThreads(num_threads > 0 ? num_threads : cores);
  auto embedder = braid::ContrieverEmbedder::Load(options);
  if (!embedder.ok()) return embedder.status();
  *loaded = *std::move(embedder);
  return loaded->get();
}

}  // namespace

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  braid::EmbedderArguments arguments;
  if (const auto end = braid::ParseEmbedderArguments(argc, argv, &arguments)) return *end;
  const braid::ContrieverOptions options = {
      .directory = arguments.model, .max_tokens = arguments.max_tokens, .prefix = arguments.prefix};
  if (!IsSocket(STDIN_FILENO)) {
    std::cerr
        << "braid-embedder: standard input is not a socket; this program is started by braid and "
           "braidd\n";
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  EndWithParent(STDIN_FILENO);
  std::unique_ptr<braid::ContrieverEmbedder> loaded;
  const absl::Status status =
      braid::ServeEmbedder(STDIN_FILENO, Load(options, arguments.num_threads, &loaded));
  if (!status.ok()) std::cerr << "braid-embedder: " << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
