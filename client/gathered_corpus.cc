#include "client/gathered_corpus.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "control/supervision/subprocess.h"
#include "rpc/executable_path.h"
#include "rpc/interrupt.h"

namespace braid {

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
  std::string summary;
  const auto keep = [&](std::string_view line) {
    summary = std::string(line);
    return true;
  };
  ASSIGN_OR_RETURN(const SubprocessResult result,
                   RunSubprocess({.arguments = {python, script.string(), output_jsonl.string(),
                                                "--bytes", absl::StrCat(options.target_bytes),
                                                "--min-bytes", absl::StrCat(options.min_bytes),
                                                "--split-bytes", absl::StrCat(options.split_bytes)},
                                  .environment = TrainerEnvironment()},
                                 keep, Interrupted));
  if (Interrupted()) return absl::CancelledError("interrupted while gathering text");
  if (result.exit_code != 0) {
    return absl::FailedPreconditionError(absl::StrCat("gather: ", script.string(), " exited with ",
                                                      result.exit_code, ": ", result.error_output));
  }
  board.Finish("gather", summary);
  return absl::OkStatus();
}

}  // namespace braid
