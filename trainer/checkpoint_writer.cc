#include "trainer/checkpoint_writer.h"

#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// The manifest entries of all ranks are gathered as a sum of doubles, in which each rank fills its
// own range: lengths below 2^53 and checksums below 2^32 are exact.
constexpr size_t kFilesPerRank = 2;
constexpr size_t kNumbersPerFile = 3;

ManifestEntry EntryOf(size_t file, int world_size, const double* numbers) {
  const int rank = static_cast<int>(file / kFilesPerRank);
  const bool weights = file % kFilesPerRank == 0;
  return {weights ? ModelFileName(rank, world_size) : OptimizerFileName(rank, world_size),
          static_cast<int64_t>(numbers[0]), static_cast<uint32_t>(numbers[1]),
          static_cast<int64_t>(numbers[2])};
}

// Returns the manifest entries of all ranks, in rank order.
absl::StatusOr<std::vector<ManifestEntry>> Gather(Communicator& communicator,
                                                  const std::vector<ManifestEntry>& own) {
  const size_t num_files = kFilesPerRank * communicator.world_size();
  std::vector<double> numbers(num_files * kNumbersPerFile);
  double* mine = &numbers[communicator.rank() * kFilesPerRank * kNumbersPerFile];
  for (const ManifestEntry& entry : own) {
    *mine++ = static_cast<double>(entry.bytes);
    *mine++ = entry.crc32c;
    *mine++ = static_cast<double>(entry.records);
  }
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(numbers)));
  std::vector<ManifestEntry> entries;
  for (size_t f = 0; f < num_files; ++f) {
    entries.push_back(EntryOf(f, communicator.world_size(), &numbers[f * kNumbersPerFile]));
  }
  return entries;
}

}  // namespace

CheckpointWriter::CheckpointWriter(Communicator* communicator, CheckpointWriterSettings settings)
    : communicator_(communicator),
      settings_(std::move(settings)),
      share_(communicator->rank(), communicator->world_size()) {}

std::filesystem::path CheckpointWriter::Staging() const {
  return StagingPath(settings_.checkpoints, share_.state().step, settings_.attempt);
}

absl::Status CheckpointWriter::Start(const CheckpointSource& source) {
  // Background threads read share_ until the checkpoint in progress is published.
  RETURN_IF_ERROR(Finish());
  share_.Copy(source);
  stage_ = Stage::kWriting;
  task_.Start([this](const std::stop_token& stop) { return Write(stop); });
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Write(const std::stop_token& stop) {
  // Every rank makes the directory, so that none has to wait until another one has made it.
  RETURN_IF_ERROR(MakeDirectories(Staging()));
  ASSIGN_OR_RETURN(own_files_, share_.Write(Staging(), stop));
  if (!leads()) return absl::OkStatus();
  ASSIGN_OR_RETURN(common_files_, share_.WriteCommon(Staging(), settings_.tokenizer));
  return absl::OkStatus();
}

// The protocol, with all collective calls on the training threads:
//   Start      copy the share; the background thread of each rank writes STAGING/*     (kWriting)
//   Advance    all ranks are ready: agree on success, gather the manifest entries;
//              rank 0's background thread writes the manifest and renames STAGING (kPublishing)
//   Advance    all ranks are ready: agree on success                                   (kIdle)
// Invariant: the stage is the same on every rank, because it changes only here, after
// AgreeOnStatus. A rank whose disk is slow is never waited for inside a step: TrainingLoop calls
// Advance only when the sum of Ready() over the ranks shows that no rank will block. The manifest
// is written last, and the rename is atomic, so a reader sees either no checkpoint or a complete
// one.
absl::Status CheckpointWriter::Advance() {
  const absl::Status status = AgreeOnStatus(*communicator_, task_.Wait());
  if (!status.ok()) return GiveUp(status);
  if (stage_ == Stage::kWriting) return BeginPublishing();
  stage_ = Stage::kIdle;
  if (!rotation_.ok()) {
    *settings_.warnings << "an old checkpoint stays: " << rotation_.message() << std::endl;
  }
  return absl::OkStatus();
}

absl::Status CheckpointWriter::GiveUp(const absl::Status& cause) {
  stage_ = Stage::kIdle;
  std::error_code ignored;
  // The tasks of all ranks ended before they agreed (Advance), so no file appears in the directory
  // any more.
  if (leads()) std::filesystem::remove_all(Staging(), ignored);
  // Names the file as a reader of the run knows it, without the name of the attempt.
  const std::string final_path =
      CheckpointPath(settings_.checkpoints, share_.state().step).string();
  return absl::Status(
      cause.code(),
      absl::StrCat("checkpoint not completed: ",
                   absl::StrReplaceAll(cause.message(), {{Staging().string(), final_path}})));
}

absl::Status CheckpointWriter::Finish() {
  while (stage_ != Stage::kIdle) RETURN_IF_ERROR(Advance());
  return absl::OkStatus();
}

absl::Status CheckpointWriter::BeginPublishing() {
  ASSIGN_OR_RETURN(std::vector<ManifestEntry> files, Gather(*communicator_, own_files_));
  stage_ = Stage::kPublishing;
  // The other ranks have no task in this stage, so they are ready at once.
  if (!leads()) return absl::OkStatus();
  task_.Start([this, manifest = ManifestOf(std::move(files))](const std::stop_token&) {
    return Publish(manifest);
  });
  return absl::OkStatus();
}

Manifest CheckpointWriter::ManifestOf(std::vector<ManifestEntry> files) const {
  files.insert(files.end(), common_files_.begin(), common_files_.end());
  return {.kind = kCheckpointKind,
          .key = share_.state().dataset_key,
          .files = std::move(files),
          .settings = {{"step", absl::StrCat(share_.state().step)},
                       {"world_size", absl::StrCat(communicator_->world_size())}}};
}

absl::Status CheckpointWriter::Publish(const Manifest& manifest) {
  const int64_t step = share_.state().step;
  RETURN_IF_ERROR(settings_.before_publish());
  RETURN_IF_ERROR(manifest.Save(Staging()));
  RETURN_IF_ERROR(PublishCheckpoint(settings_.checkpoints, step, Staging()));
  // TrainingLoop asks the fence again here: a superseded attempt must not remove checkpoints of the
  // attempt that replaced it.
  RETURN_IF_ERROR(settings_.before_rotate());
  CheckpointRetention retention = settings_.retention;
  retention.best_step = share_.state().validation.best_step;
  rotation_ = RotateCheckpoints(settings_.checkpoints, step, retention);
  return absl::OkStatus();
}

}  // namespace braid
