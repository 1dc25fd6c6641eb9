#include "runs/metrics_export/tensorboard_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "formats/event_file.h"
#include "runs/metrics_export/run_events.h"
#include "runs/metrics_export/text_tables.h"
#include "runs/process_identity.h"

namespace braid {

TensorBoardLog::~TensorBoardLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TensorBoardLog::Append(const v1::StepMetrics& metrics) {
  const absl::Status status = TryToAppend(metrics);
  if (status.ok() || warned_) return;
  warned_ = true;
  *warnings_ << absl::StrCat(
                    "step ", metrics.step(),
                    " was not written for TensorBoard, and later steps may be missing too: ",
                    status.message(),
                    "; training continues, and 'braid metrics --tensorboard' exports all steps\n")
             << std::flush;
}

absl::Status TensorBoardLog::TryToAppend(const v1::StepMetrics& metrics) {
  if (descriptor_ < 0) RETURN_IF_ERROR(Open(metrics));
  return Write(RecordOf(StepEvent(metrics)));
}

absl::Status TensorBoardLog::Open(const v1::StepMetrics& first) {
  RETURN_IF_ERROR(MakeDirectories(directory_));
  const int64_t seconds = SecondsAfterOthers(directory_, static_cast<int64_t>(first.time()));
  file_ = directory_ / EventFileName(seconds, HostName(), getpid());
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) return SystemError("create", file_, errno);
  const absl::Status begun = Write(absl::StrCat(
      RecordOf(VersionEvent(first.time())), RecordOf(StartEvent(first.time(), first.step())),
      RecordOf(
          TextEvent(first.time(), first.step(), "run/configuration", ConfigurationTable(spec_)))));
  if (begun.ok()) return begun;
  // A file without its first events is invalid, so the next step creates a new one.
  ::close(descriptor_);
  descriptor_ = -1;
  ::unlink(file_.c_str());
  return begun;
}

// Writes at the end of the complete records, so that a partially failed write is overwritten.
absl::Status TensorBoardLog::Write(const std::string& records) {
  const ssize_t written = ::pwrite(descriptor_, records.data(), records.size(), size_);
  if (written == static_cast<ssize_t>(records.size())) {
    size_ += written;
    return absl::OkStatus();
  }
  const int error = written < 0 ? errno : ENOSPC;
  // Shorter records must not leave remains of the failed write. If this fails too, readers stop
  // there.
  (void)!::ftruncate(descriptor_, size_);
  return SystemError("write", file_, error);
}

}  // namespace braid
