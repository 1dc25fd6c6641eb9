#include "runs/run_evaluation.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace braid {

absl::StatusOr<std::string> ReadIfPresent(const std::filesystem::path& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

absl::Status ParseKeptResult(const std::string& text, const std::filesystem::path& path,
                             google::protobuf::Message* result) {
  const absl::StatusOr<nlohmann::json> object = OpenSealedJson(text, path);
  if (!object.ok())
    return absl::DataLossError(absl::StrCat(object.status().message(), "; or evaluate again"));
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (google::protobuf::util::JsonStringToMessage(object->dump(), result, options).ok()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(path.string(), ": not a ", result->GetDescriptor()->name(), "; evaluate again"));
}

absl::StatusOr<std::optional<v1::Evaluation>> ReadEvaluation(const RunDirectory& run) {
  ASSIGN_OR_RETURN(const std::string text, ReadIfPresent(run.evaluation()));
  if (text.empty()) return std::nullopt;
  v1::Evaluation evaluation;
  RETURN_IF_ERROR(ParseKeptResult(text, run.evaluation(), &evaluation));
  return evaluation;
}

absl::StatusOr<v1::EvaluationResult> ReadActiveExperts(const RunDirectory& run) {
  const std::filesystem::path path = run.root() / kActiveExpertsFile;
  v1::EvaluationResult result;
  ASSIGN_OR_RETURN(const std::string text, ReadIfPresent(path));
  if (!text.empty()) RETURN_IF_ERROR(ParseKeptResult(text, path, &result));
  return result;
}

}  // namespace braid
