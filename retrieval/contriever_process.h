// A BERT encoder in a separate process, braid-embedder, as an Embedder.
//
// Programs that use this do not link LibTorch: they start at once, do not share a process with its
// OpenMP and BLAS threads, and survive when it crashes or runs out of memory. The process ends with
// this object or with the process that owns it.
#ifndef BRAID_RETRIEVAL_CONTRIEVER_PROCESS_H_
#define BRAID_RETRIEVAL_CONTRIEVER_PROCESS_H_

#include <sys/types.h>

#include <chrono>
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
  // Same meaning as in ContrieverOptions.
  std::filesystem::path directory = {};
  int32_t max_tokens = 0;
  // Text that is put before each text; nullopt: the default prompt of the model.
  std::optional<std::string> prefix = std::nullopt;
  // Number of threads of the process; 0: all cores.
  int32_t num_threads = 0;
  // Called every 50 ms while texts are embedded. An error ends the process at once; the next call
  // starts another.
  StopCheck keep_going = nullptr;
  // Maximum time that the process may spend on texts, or on reading the model, without using any
  // processor time. After that it hangs: it is killed and counts as dead.
  std::chrono::milliseconds max_idle{300'000};
  // Maximum time for 256 texts, or for reading the model, even if processor time is used. After
  // that it hangs, too.
  std::chrono::milliseconds max_call = std::chrono::hours(6);
};

// Thread-safe; concurrent calls alternate after every 256 texts.
class ContrieverProcess final : public Embedder {
 public:
  // Starts the process and waits until it has read the model. Errors: those of
  // ContrieverEmbedder::Load; NOT_FOUND if the program does not exist; RESOURCE_EXHAUSTED if the
  // process was killed, for example by the kernel when memory ran out; DEADLINE_EXCEEDED if it
  // hangs.
  static absl::StatusOr<std::unique_ptr<ContrieverProcess>> Start(
      const ContrieverProcessOptions& options);
  ~ContrieverProcess() override;

  int32_t dimension() const override { return hello_.dimension; }
  std::string fingerprint() const override { return hello_.fingerprint; }
  int64_t preferred_batch_texts() const override { return kContrieverBatchTexts; }

  // Embeds texts. If the process dies or hangs, it is restarted once per 256 texts.
  // RESOURCE_EXHAUSTED if the second process is killed too, DEADLINE_EXCEEDED if it hangs;
  // FAILED_PRECONDITION if the model has changed since Start.
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override;
  absl::StatusOr<int64_t> EmbedAndCountCut(std::span<const std::string_view> texts,
                                           std::span<float> vectors) const override;

  // Returns the process id; 0 while there is no process.
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

// Returns the path of braid-embedder: $BRAID_EMBEDDER_PROGRAM, or the program beside this one or in
// ../bin relative to it. NOT_FOUND, with the places searched, if there is none.
absl::StatusOr<std::filesystem::path> FindEmbedderProgram();

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_PROCESS_H_
