// The files of a training run. The run directory is the only interface between the trainer, which
// writes it, and everything that watches runs; a run can be inspected, moved or resumed without any
// server.
//
//   run.textproto        the resolved RunSpec
//   tokenizer.model      copy of the dataset's
//   metrics.jsonl        one StepMetrics per line, in step order
//   tensorboard/         the same for TensorBoard; docs/formats/metrics.md
//   heartbeat/rank-0.json
//   checkpoints/         step-00000480/ ...; see runs/checkpoint.h
//   launch.json          how to start the ranks; written by the launcher
//   process.json         the identity of the supervisor
//   attempt.json         mpirun of the current attempt; ranks of older attempts end themselves
//   stop.json            a request to stop the launch
//   events.jsonl, supervision.json   events recorded by the supervisor; docs/control.md
//   trainer.log          stdout and stderr of the ranks
//   exit.json            result of the last attempt
#ifndef BRAID_RUNS_RUN_DIRECTORY_H_
#define BRAID_RUNS_RUN_DIRECTORY_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

inline constexpr std::string_view kSucceeded = "succeeded";
inline constexpr std::string_view kStopped = "stopped";
inline constexpr std::string_view kFailed = "failed";

// Exit codes of braid-trainer.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotFound = 3;
// Stopped on request, after saving a checkpoint.
inline constexpr int kExitStopped = 75;
// Another attempt owns the run; nothing was written.
inline constexpr int kExitFenced = 76;

// Environment variable of a rank: the nonce of the attempt that it belongs to.
inline constexpr char kNonceVariable[] = "BRAID_RUN_NONCE";

// The content of exit.json.
struct ExitRecord {
  std::string outcome;  // kSucceeded, kStopped or kFailed
  std::string error;    // the cause when kFailed, else empty
  int64_t step = 0;     // steps completed
  // The attempt; empty when the trainer was started by hand.
  std::string nonce = {};
  // True if another attempt may succeed; false when it would fail in the same way.
  bool retryable = true;
};

// Names, reads and writes the files above. Holds only the path: cheap to copy and thread-safe.
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path spec() const { return root_ / "run.textproto"; }
  std::filesystem::path tokenizer() const { return root_ / "tokenizer.model"; }
  std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path tensorboard() const { return root_ / "tensorboard"; }
  std::filesystem::path evaluation() const { return root_ / "evaluation.json"; }
  std::filesystem::path sample() const { return root_ / "sample.txt"; }
  std::filesystem::path heartbeats() const { return root_ / "heartbeat"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path launch() const { return root_ / "launch.json"; }
  std::filesystem::path process() const { return root_ / "process.json"; }
  std::filesystem::path attempt() const { return root_ / "attempt.json"; }
  std::filesystem::path stop() const { return root_ / "stop.json"; }
  std::filesystem::path events() const { return root_ / "events.jsonl"; }
  std::filesystem::path supervision() const { return root_ / "supervision.json"; }
  std::filesystem::path log() const { return root_ / "trainer.log"; }
  std::filesystem::path exit() const { return root_ / "exit.json"; }

  // Creates the directory with a resolved spec in it, sealed (base/sealed_text.h).
  absl::Status WriteSpec(const v1::RunSpec& spec) const;
  // Reads the spec. NotFound, naming the directory, when it is not a run directory; DataLoss when
  // the file was damaged, or edited without removing its seal.
  absl::StatusOr<v1::RunSpec> ReadSpec() const;
  // Seals a spec that was edited by hand or written by an older version; no effect on a sealed one.
  // Errors are those of ReadSpec.
  absl::Status SealSpec() const;

  // Returns the metrics of all complete lines after the first `after_line` ones; a last line
  // without newline is still being written and is left for the next call. Empty when there is no
  // file yet. DataLoss names a damaged line, and the end of the file when the run has succeeded but
  // its last steps are missing. Holds everything in memory; MetricsReader reads one line at a time.
  absl::StatusOr<std::vector<v1::StepMetrics>> ReadMetrics(int64_t after_line) const;
  // Returns the newest complete lines, oldest first: at most `limit`, and only those in the last 64
  // KiB of the file, but always the newest. The time does not depend on the length of the run.
  std::vector<v1::StepMetrics> ReadRecentMetrics(int64_t limit) const;
  // Returns the newest complete line, if there is one.
  std::optional<v1::StepMetrics> ReadNewestMetrics() const;

  // Writes exit.json; `rank` is that of the writer. When several ranks fail at once, the complete
  // record of one of them remains.
  absl::Status WriteExit(const ExitRecord& record, int rank = 0) const;
  // Returns the content of exit.json. Absent while the run is training and after a crash; a
  // launcher calls RemoveExit first.
  std::optional<ExitRecord> ReadExit() const;
  absl::Status RemoveExit() const;

  // Replaces the file by rename, without fsync: readers never see a partial heartbeat.
  absl::Status WriteHeartbeat(const v1::Heartbeat& heartbeat) const;
  // Returns the heartbeats by rank, without unreadable ones.
  std::vector<v1::Heartbeat> ReadHeartbeats() const;

 private:
  std::filesystem::path root_;
};

}  // namespace braid

#endif  // BRAID_RUNS_RUN_DIRECTORY_H_
