#include "runs/run_evaluation.h"

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace braid {

absl::StatusOr<std::string> ReadIfPresent(const std::filesystem::path& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

absl::StatusOr<std::optional<v1::Evaluation>> ReadEvaluation(const RunDirectory& run) {
  ASSIGN_OR_RETURN(const std::string text, ReadIfPresent(run.evaluation()));
  if (text.empty()) return std::nullopt;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::Evaluation evaluation;
  if (google::protobuf::util::JsonStringToMessage(text, &evaluation, options).ok()) {
    return evaluation;
  }
  return absl::DataLossError(
      absl::StrCat(run.evaluation().string(), ": not an evaluation; evaluate again"));
}

}  // namespace braid
