#include "server/access/request_paths.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/path_roots.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Cancelled = std::function<bool()>;

// The tables list full names without "braid.v1.".
constexpr std::array<std::string_view, 22> kPaths = {
    "CorpusSpec.paths",
    "DecontaminateConfig.paths",
    "DescribeCorpusRequest.paths",
    "TokenizerConfig.model_path",
    "EmbedderConfig.model_dir",
    "RunSpec.dataset_dir",
    "MixtureDataset.dataset",
    "EvaluateRequest.dataset_dir",
    "ExportRequest.output_dir",
    "EvaluateRequest.paths",
    "EvaluateTasksRequest.data_dir",
    "EvaluateTasksRequest.answers_dir",
    "AnalyzeRoutingRequest.dataset_dir",
    "AnalyzeExpertsRequest.dataset_dir",
    "AnalyzeExpertsRequest.tasks_dir",
    "AnalyzeLayersRequest.paths",
    "AnalyzeLayersRequest.tasks_dir",
    "ImportRequest.source_dir",
    "ImportRequest.output_dir",
    "ImportRequest.tokenizer",
    "ConvertRequest.output_dir",
    "KeptExperts.dataset_dir",
};

constexpr std::array<std::string_view, 13> kModels = {
    "RunSpec.init_from",           "EvaluateRequest.models",
    "EvaluateTasksRequest.model",  "AnalyzeRoutingRequest.model",
    "AnalyzeExpertsRequest.model", "ExportMetricsRequest.run",
    "GenerateRequest.model",       "ExportRequest.model",
    "ReportRequest.runs",          "ConvertRequest.model",
    "ImportRequest.base",          "EvaluateTasksRequest.further_models",
    "AnalyzeLayersRequest.model",
};

constexpr std::string_view kBranchPoint = "RunSpec.branch_from";

// None of these is ever opened as a file of this machine.
constexpr std::array<std::string_view, 98> kTexts = {
    "AnalyzeExpertsRequest.tasks",
    "AnalyzeLayersRequest.probes",
    "AnalyzeLayersRequest.tasks",
    "CancelJobRequest.id",
    "CorpusSpec.name",
    "EmbedderConfig.text_prefix",
    "IngestConfig.embedding_field",
    "IngestConfig.where",
    "CreateShardRequest.index",
    "CreateShardRequest.shard",
    "AddVectorsRequest.shard",
    "SealShardRequest.shard",
    "DeleteRequest.ids",
    "DeduplicateConfig.near_duplicates",
    "DescribeShardRequest.shard",
    "DropShardRequest.shard",
    "SetCentroidsRequest.shard",
    "SearchRequest.shard",
    "TrainShardRequest.shard",
    "EmbedRequest.texts",
    "EmbedderConfig.addresses",
    "EmbedderConfig.kind",
    "ExplainDocumentRequest.document",
    "ExplainDocumentRequest.job_id",
    "ExplainInstancesRequest.job_id",
    "ExportRequest.bake_prompt",
    "ExportRequest.dtype",
    "GenerateRequest.prompt",
    "GenerateRequest.system",
    "GenerateRequest.chat_template",
    "GetJobRequest.id",
    "GetRunRequest.id",
    "HostSlots.host",
    "IngestConfig.domain_field",
    "IngestConfig.id_field",
    "IngestConfig.text_field",
    "KubernetesConfig.cpu",
    "KubernetesConfig.image",
    "KubernetesConfig.memory",
    "KubernetesConfig.mount_path",  // a path within the pod
    "KubernetesConfig.namespace",
    "KubernetesConfig.volume_claim",
    "LaunchConfig.network_interface",
    "LaunchRunRequest.request_id",
    "ListJobsRequest.page_token",
    "ListRunsRequest.page_token",
    "ModelConfig.preset",
    "ModelConfig.chat_template",
    "LabelHead.classes",
    "LoraConfig.targets",
    "Finetuning.train",
    "LearningRateGroup.pattern",
    "NeighborConfig.addresses",
    "NeighborConfig.index",
    "ResumeJobRequest.id",
    "ResumeRunRequest.id",
    "RunSpec.name",
    "SlurmConfig.account",
    "SlurmConfig.partition",
    "SlurmConfig.qos",
    "StopRunRequest.id",
    "SubmitCorpusRequest.request_id",
    "TaskSpec.name",
    "ChoiceAnswer.choices",
    "ChoiceAnswer.choices_from",
    "ChoiceAnswer.continuation",
    "ChoiceAnswer.gold",
    "ChoiceAnswer.labels",
    "ChoiceAnswer.labels_from",
    "ChoiceAnswer.positive",
    "ChoiceAnswer.unconditional_context",
    "FieldValue.becomes",
    "FieldValue.is",
    "FreeAnswer.references_from",
    "FreeAnswer.group_by",
    "FreeAnswer.stop",
    "NumberAnswer.gold",
    "TaskField.from",
    "TaskField.match",
    "TaskField.name",
    "TaskField.split",
    "TaskField.text",
    "TaskFile.columns",
    "TaskFile.each",
    "TaskFile.labels",  // within data_dir (CheckTaskSpec)
    "TaskFile.path",    // within data_dir (CheckTaskSpec)
    "TaskFile.records",
    "TaskSpec.delimiter",
    "TaskSpec.description",
    "TaskSpec.folder",  // within data_dir (CheckTaskSpec)
    "TaskSpec.prompt",
    "TaskSpec.separator",
    "TaskSpec.source",
    "TaskSpec.title",
    "TextReplacement.pattern",
    "TextReplacement.with",
    "WatchJobRequest.id",
    "WatchRunRequest.id",
};

bool IsRunId(std::string_view name) {
  // Digits only, so that a path such as run-1/../../etc does not pass.
  return name.starts_with("run-") && name.size() > 4 &&
         std::ranges::all_of(name.substr(4),
                             [](unsigned char c) { return absl::ascii_isdigit(c); });
}

absl::Status CheckValue(std::string value, FieldUse use, const FieldDescriptor& field,
                        const PathRoots& roots, const Cancelled& cancelled) {
  // A branch point without a step is refused later, as no run has such a name.
  if (use == FieldUse::kBranchPoint) value.resize(std::min(value.rfind('@'), value.size()));
  // The average of a model's weights lies in the model's files.
  constexpr std::string_view kAverage = "@ema";
  if (use == FieldUse::kModel && value.ends_with(kAverage)) {
    value.resize(value.size() - kAverage.size());
  }
  if (value.empty()) return absl::OkStatus();
  const bool names_model = use == FieldUse::kModel || use == FieldUse::kBranchPoint;
  if (names_model && IsRunId(value)) {
    // When no run has this id, services look for the directory ./run-N. If it exists, its path is
    // checked like any other.
    std::error_code error;
    if (!std::filesystem::exists(value, error)) return absl::OkStatus();
    value = AbsolutePath(value);
  }
  if (cancelled())
    return absl::CancelledError("the call was canceled while its paths were checked");
  const absl::Status status = roots.Check(value);
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(std::string(field.name()), ": ", std::string(status.message())));
}

absl::Status CheckStrings(const Message& message, const FieldDescriptor& field,
                          const PathRoots& roots, const Cancelled& cancelled) {
  const FieldUse use = UseOf(field);
  // A field that the tables lack is checked like a path, so that a new one is safe by default.
  if (use == FieldUse::kText) return absl::OkStatus();
  const auto& reflection = *message.GetReflection();
  if (!field.is_repeated()) {
    return CheckValue(reflection.GetString(message, &field), use, field, roots, cancelled);
  }
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    RETURN_IF_ERROR(
        CheckValue(reflection.GetRepeatedString(message, &field, i), use, field, roots, cancelled));
  }
  return absl::OkStatus();
}

absl::Status CheckMessages(const Message& message, const FieldDescriptor& field,
                           const PathRoots& roots, const Cancelled& cancelled) {
  const auto& reflection = *message.GetReflection();
  if (!field.is_repeated())
    return CheckPaths(reflection.GetMessage(message, &field), roots, cancelled);
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    RETURN_IF_ERROR(
        CheckPaths(reflection.GetRepeatedMessage(message, &field, i), roots, cancelled));
  }
  return absl::OkStatus();
}

}  // namespace

FieldUse UseOf(const FieldDescriptor& field) {
  std::string_view name = field.full_name();
  constexpr std::string_view kPackage = "braid.v1.";
  // Services that are not part of braid, such as reflection, do not access files.
  if (!name.starts_with(kPackage)) return FieldUse::kText;
  name.remove_prefix(kPackage.size());
  const auto in = [name](const auto& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (in(kPaths)) return FieldUse::kPath;
  if (in(kModels)) return FieldUse::kModel;
  if (name == kBranchPoint) return FieldUse::kBranchPoint;
  return in(kTexts) ? FieldUse::kText : FieldUse::kNotClassified;
}

absl::Status CheckPaths(const Message& request, const PathRoots& roots,
                        const Cancelled& cancelled) {
  std::vector<const FieldDescriptor*> fields;
  request.GetReflection()->ListFields(request, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      RETURN_IF_ERROR(CheckStrings(request, *field, roots, cancelled));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      RETURN_IF_ERROR(CheckMessages(request, *field, roots, cancelled));
    }
  }
  return absl::OkStatus();
}

}  // namespace braid
