// Writes checkpoints while training continues. The training thread waits only for a copy of this
// rank's share; a background thread of each rank writes and flushes it. When all ranks have
// finished, the background thread of rank 0 publishes the checkpoint and removes old ones.
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
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/manifest.h"
#include "runs/checkpoint_directory.h"
#include "trainer/checkpoint_share.h"
#include "trainer/parallel/background_task.h"
#include "trainer/parallel/communicator.h"

namespace braid {

struct CheckpointWriterSettings {
  std::filesystem::path checkpoints;
  // The tokenizer file to copy into each checkpoint.
  std::filesystem::path tokenizer;
  // best_step is that of the state to save.
  CheckpointRetention retention;
  // The same on all ranks, different for each start of the run; part of the staging directory's
  // name.
  std::string attempt;
  // Called on rank 0's background thread before a checkpoint is published, to flush files that must
  // be at least as new as the checkpoint.
  std::function<absl::Status()> before_publish = [] { return absl::OkStatus(); };
  // Called on the same thread before old checkpoints are removed; an error keeps them.
  std::function<absl::Status()> before_rotate = [] { return absl::OkStatus(); };
  // Rank 0 writes a warning to it when an old checkpoint cannot be removed; the run continues.
  std::ostream* warnings = &std::cerr;
};

// A collective object: every rank has one and makes the same calls. The first error of any rank is
// returned on all ranks; the checkpoint in progress is then abandoned, and published ones stay. The
// destructor cancels a checkpoint in progress.
class CheckpointWriter {
 public:
  // `communicator` is used only inside the calls below, never by the background threads.
  CheckpointWriter(Communicator* communicator, CheckpointWriterSettings settings);

  // Copies this rank's share and starts writing it. Blocks until the previous checkpoint is
  // complete.
  absl::Status Start(const CheckpointSource& source);

  // Returns true when a checkpoint is in progress and this rank's work in the current stage has
  // ended, successfully or not.
  bool Ready() const { return stage_ != Stage::kIdle && task_.finished(); }

  // Moves from writing to publishing, or from publishing to complete. Blocks until every rank is
  // ready.
  absl::Status Advance();

  // Blocks until the checkpoint in progress, if any, is published.
  absl::Status Finish();

 private:
  enum class Stage { kIdle, kWriting, kPublishing };

  std::filesystem::path Staging() const;
  absl::Status Write(const std::stop_token& stop);
  absl::Status BeginPublishing();
  absl::Status GiveUp(const absl::Status& cause);
  absl::Status Publish(const Manifest& manifest);
  Manifest ManifestOf(std::vector<ManifestEntry> files) const;
  bool leads() const { return communicator_->rank() == 0; }

  Communicator* const communicator_;
  const CheckpointWriterSettings settings_;
  Stage stage_ = Stage::kIdle;
  CheckpointShare share_;
  // Written by the background thread, read after it has ended.
  std::vector<ManifestEntry> own_files_;
  std::vector<ManifestEntry> common_files_;  // rank 0
  absl::Status rotation_;                    // rank 0, of the newest published checkpoint
  BackgroundTask task_;                      // last member: its thread uses the others
};

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_WRITER_H_
