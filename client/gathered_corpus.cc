#include "client/gathered_corpus.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/staged_output.h"
#include "base/status_macros.h"
#include "control/supervision/subprocess.h"
#include "rpc/executable_path.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

// Moves a complete file, durably.
absl::Status Publish(const std::filesystem::path& gathered, const std::filesystem::path& output) {
  RETURN_IF_ERROR(SyncPath(gathered));
  if (std::rename(gathered.c_str(), output.c_str()) != 0) {
    return SystemError("create", output, errno);
  }
  return SyncPath(output.parent_path());
}

}  // namespace

absl::StatusOr<std::filesystem::path> FindGatherScript() {
  const std::filesystem::path programs = SiblingProgram("braid").parent_path();
  const std::filesystem::path in_source = programs / "../../deploy/gather_text.py";
  const std::filesystem::path installed = programs / "../share/braid/gather_text.py";
  for (const std::filesystem::path& path : {in_source, installed}) {
    if (std::filesystem::exists(path)) return path.lexically_normal();
  }
  return absl::NotFoundError(absl::StrCat(
      "gather: gather_text.py not found at ", in_source.lexically_normal().string(), " or ",
      installed.lexically_normal().string(), "; install it or name a corpus of your own"));
}

absl::Status GatherOnce(const GatherOptions& options, const std::filesystem::path& output_jsonl,
                        ProgressBoard& board) {
  if (std::filesystem::exists(output_jsonl)) {
    board.Finish("gather", "reused");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::filesystem::path script, FindGatherScript());
  ASSIGN_OR_RETURN(const std::string python,
                   RequireProgram("python3", "install python3, or name a corpus of your own"));
  ASSIGN_OR_RETURN(const auto staging, StagingDirectory::Create(output_jsonl));
  const std::filesystem::path gathered = staging->path() / output_jsonl.filename();
  std::string summary;
  // The last line of the output is the summary.
  const auto keep = [&](std::string_view line) {
    summary = std::string(line);
    return true;
  };
  const auto started = std::chrono::steady_clock::now();
  // The script reports nothing before its end, so the row shows the elapsed time.
  const auto show_time = [&] {
    const auto elapsed =
        std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - started);
    board.Update(
        "gather",
        {.done = elapsed.count(), .unit = "s", .detail = "reading this machine's text", .rate = 0});
  };
  const auto cancelled = [&] {
    show_time();
    return Interrupted();
  };
  show_time();
  ASSIGN_OR_RETURN(const SubprocessResult result,
                   RunSubprocess({.arguments = {python, script.string(), gathered.string(),
                                                "--bytes", absl::StrCat(options.target_bytes),
                                                "--min-bytes", absl::StrCat(options.min_bytes),
                                                "--split-bytes", absl::StrCat(options.split_bytes)},
                                  .environment = TrainerEnvironment()},
                                 keep, cancelled));
  if (Interrupted()) return absl::CancelledError("interrupted while gathering text");
  if (result.exit_code != 0) {
    return absl::FailedPreconditionError(absl::StrCat("gather: ", script.string(), " exited with ",
                                                      result.exit_code, ": ", result.error_output));
  }
  RETURN_IF_ERROR(Publish(gathered, output_jsonl));
  board.Finish("gather", summary);
  return absl::OkStatus();
}

}  // namespace braid
