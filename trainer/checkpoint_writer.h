// Writes checkpoints while the run goes on. The run waits only for a copy of this
// rank's share; a thread of each rank writes and flushes it, and once all ranks
// have, one of rank 0 publishes the checkpoint and removes old ones.
// docs/formats/checkpoint.md has the protocol and what a crash leaves at each point.
//
//   RETURN_IF_ERROR(writer.Start(source));           // when a checkpoint is due
//   ...
//   ranks_ready = sum over ranks of writer.Ready();  // in a message of each step
//   if (ranks_ready == world_size) RETURN_IF_ERROR(writer.Advance());
//   ...
//   RETURN_IF_ERROR(writer.Finish());                // before the run ends
#ifndef BRAID_TRAINER_CHECKPOINT_WRITER_H_
#define BRAID_TRAINER_CHECKPOINT_WRITER_H_

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/manifest.h"
#include "trainer/checkpoint_share.h"
#include "trainer/parallel/background_task.h"
#include "trainer/parallel/communicator.h"

namespace braid {

struct CheckpointWriterSettings {
  std::filesystem::path checkpoints;
  // A file to copy into each.
  std::filesystem::path tokenizer;
  int keep_last = 1;
  // The same on all ranks, another for each start of the run; part of a file name.
  std::string attempt;
  // On rank 0's thread, before a checkpoint is published: flush what belongs with it.
  std::function<absl::Status()> before_publish = [] { return absl::OkStatus(); };
  // There too, before old ones are removed: an error leaves them.
  std::function<absl::Status()> before_rotate = [] { return absl::OkStatus(); };
};

// Every rank has one and makes the same calls. The first error of any rank is
// returned by all; that checkpoint is given up then, and what was good before stays.
// The destructor cancels what is under way.
class CheckpointWriter {
 public:
  // `communicator` is used inside the calls only, never by the threads.
  CheckpointWriter(Communicator* communicator, CheckpointWriterSettings settings);

  // Copies this rank's share and starts to write it. Waits for the checkpoint before,
  // when that is not complete yet.
  absl::Status Start(const CheckpointSource& source);

  // A checkpoint is under way and this rank's part in its present stage is over, well or not.
  bool Ready() const { return stage_ != Stage::kIdle && task_.finished(); }

  // From writing to publishing to complete. Waits until every rank is ready.
  absl::Status Advance();

  // Waits until the checkpoint under way, if any, is published.
  absl::Status Finish();

 private:
  enum class Stage { kIdle, kWriting, kPublishing };

  std::filesystem::path Staging() const;
  absl::Status Write(const std::stop_token& stop);
  absl::Status BeginPublishing();
  absl::Status GiveUp(const absl::Status& cause);
  absl::Status Publish(const Manifest& manifest) const;
  Manifest ManifestOf(std::vector<ManifestEntry> files) const;
  bool leads() const { return communicator_->rank() == 0; }

  Communicator* const communicator_;
  const CheckpointWriterSettings settings_;
  Stage stage_ = Stage::kIdle;
  CheckpointShare share_;
  // Set by the thread, read when it has ended.
  std::vector<ManifestEntry> own_files_;
  std::vector<ManifestEntry> common_files_;  // rank 0
  BackgroundTask task_;                      // last: it uses the others
};

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_WRITER_H_
