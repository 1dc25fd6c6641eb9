// A BERT encoder in a process of its own, braid-embedder, as an Embedder.
//
// LibTorch stays out of the programs that use this: they start at once, do not share a
// process with its OpenMP and BLAS threads, and live on when it runs out of memory or
// crashes. The process ends when this object or its own process does.
#ifndef BRAID_RETRIEVAL_CONTRIEVER_PROCESS_H_
#define BRAID_RETRIEVAL_CONTRIEVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/contriever_config.h"
#include "retrieval/embedder.h"
#include "retrieval/embedder_pipe.h"

namespace braid {

struct ContrieverProcessOptions {
  // As ContrieverOptions.
  std::filesystem::path directory = {};
  int32_t max_tokens = 0;
  // Threads of the process; 0: all cores.
  int32_t num_threads = 0;
  // Asked every 50 ms while texts are embedded. An error ends the process at once; the next
  // call starts another.
  StopCheck keep_going = nullptr;
};

// Thread-safe; calls take turns, 256 texts at a time.
class ContrieverProcess final : public Embedder {
 public:
  // Starts the process and waits until it has read the model. Errors: those of
  // ContrieverEmbedder::Load; NOT_FOUND without the program; RESOURCE_EXHAUSTED when the
  // process was killed, as by the kernel for want of memory.
  static absl::StatusOr<std::unique_ptr<ContrieverProcess>> Start(
      const ContrieverProcessOptions& options);
  ~ContrieverProcess() override;

  int32_t dimension() const override { return hello_.dimension; }
  std::string fingerprint() const override { return hello_.fingerprint; }
  int64_t preferred_batch_texts() const override { return kContrieverBatchTexts; }

  // A process that died is started again, once a turn. RESOURCE_EXHAUSTED when that one
  // is killed too; FAILED_PRECONDITION when the model has changed since Start.
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override;
  absl::StatusOr<int64_t> EmbedAndCountCut(std::span<const std::string_view> texts,
                                           std::span<float> vectors) const override;

  // Of the process; 0 while there is none.
  pid_t pid() const;

 private:
  class Child;
  explicit ContrieverProcess(const ContrieverProcessOptions& options);

  absl::Status Restart() const;
  absl::StatusOr<int64_t> EmbedSome(std::span<const std::string_view> texts,
                                    std::span<float> vectors) const;
  absl::StatusOr<int64_t> EmbedOnce(std::span<const std::string_view> texts,
                                    std::span<float> vectors) const;

  const ContrieverProcessOptions options_;
  EmbedderHello hello_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Child> child_;  // guarded by mutex_
};

// braid-embedder: $BRAID_EMBEDDER_PROGRAM, or beside this program, or in ../bin from it.
// NOT_FOUND with the places looked at.
absl::StatusOr<std::filesystem::path> FindEmbedderProgram();

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_PROCESS_H_
