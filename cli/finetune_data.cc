#include "cli/finetune_data.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/file_lock.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/task_records.h"
#include "evaluation/tasks/task_spec.h"
#include "formats/manifest.h"
#include "model/config/expert_split_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "pipeline/store/stage_key.h"
#include "pipeline/store/stage_store.h"
#include "pipeline/supervised/supervised_dataset.h"
#include "runs/checkpoint.h"
#include "runs/run_spec.h"
#include "runs/start_token.h"

namespace braid {
namespace {

// Increased when the same request gives another checkpoint.
constexpr int32_t kSplitVersion = 1;

// Refuses --format and --field for tasks, which define the formats of their own files.
absl::Status CheckFormatUsed(const FinetuneOptions& options) {
  if (!options.validation_data.empty()) return absl::OkStatus();  // read with these options
  if (options.format.empty() && options.field_names.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(options.format.empty() ? "--field: got " + options.field_names[0]
                                          : "--format: got " + options.format,
                   " with --task, expected it only with files of records: a task defines the "
                   "format of its own files"));
}

absl::StatusOr<RecordSet> ReadRecords(const FinetuneOptions& options) {
  if (options.tasks.empty()) {
    ASSIGN_OR_RETURN(const auto fields, options.Fields());
    ASSIGN_OR_RETURN(const auto files, options.WeighedData());
    std::vector<std::string> paths;
    for (const auto& [path, weight] : files) paths.push_back(path);
    ASSIGN_OR_RETURN(RecordSet records, ReadRecordFiles(paths, options.format, fields));
    for (size_t i = 0; i < files.size(); ++i) records.sources[i].weight = files[i].second;
    return records;
  }
  if (options.data.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data: got ", options.data.size(),
                     " values, expected one directory of task files with --task"));
  }
  RETURN_IF_ERROR(CheckFormatUsed(options));
  ASSIGN_OR_RETURN(const auto tasks, options.WeighedTasks());
  RecordSet all;
  for (const auto& [name, weight] : tasks) {
    ASSIGN_OR_RETURN(const v1::TaskSpec spec, BuiltinTask(name));
    ASSIGN_OR_RETURN(RecordSet records, ReadTaskRecords(spec, options.data[0]));
    records.sources[0].weight = weight;
    // Losses of several tasks are reported apart.
    if (tasks.size() > 1) records.sources[0].domain = name;
    AppendRecords(std::move(records), &all);
  }
  return all;
}

// Returns whether the records of a format are turns of a chat, and no plain text.
bool HoldsChats(const std::string& format) {
  return format == "alpaca" || format == "messages" || format == "sharegpt";
}

// Returns the template of the records of a source, unless one is named.
absl::StatusOr<std::string> TemplateOfSource(const RecordSource& source,
                                             const StartingPoint& start) {
  if (!HoldsChats(source.format)) return "plain";
  if (!start.model.chat_template().empty()) return start.model.chat_template();
  if (!start.model.unknown_chat_template()) return source.format == "alpaca" ? "alpaca" : "chatml";
  return absl::InvalidArgumentError(
      absl::StrCat("--template: got none for ", start.checkpoint.string(),
                   ", which was imported with a chat template that braid does not know, expected "
                   "the nearest of ",
                   absl::StrJoin(ChatTemplateNames(), ", ")));
}

absl::StatusOr<ChatTemplate> TemplateOf(const FinetuneOptions& options,
                                        const std::vector<RecordSource>& sources,
                                        const StartingPoint& start) {
  const std::string& named = options.chat_template;
  if (!options.tasks.empty() && !named.empty() && named != "plain") {
    return absl::InvalidArgumentError(
        absl::StrCat("--template: got ", named,
                     " with --task, expected plain: task evaluation poses prompts without the "
                     "text and tokens of a template"));
  }
  if (!named.empty()) return FindChatTemplate(named);
  std::set<std::string> usual;
  for (const RecordSource& source : sources) {
    ASSIGN_OR_RETURN(std::string name, TemplateOfSource(source, start));
    usual.insert(std::move(name));
  }
  if (usual.size() == 1) return FindChatTemplate(*usual.begin());
  return absl::InvalidArgumentError(
      absl::StrCat("--template: got none for files of several formats, expected one of ",
                   absl::StrJoin(ChatTemplateNames(), ", ")));
}

// Returns the template that the trained model gets: the one of the records, except that text
// without turns leaves a model the template that it has.
std::string NewTemplate(const FinetuneOptions& options, const FinetuneData& data) {
  const bool chats = std::ranges::any_of(
      data.sources, [](const RecordSource& source) { return HoldsChats(source.format); });
  const v1::ModelConfig& model = data.start.model;
  const bool has_template = !model.chat_template().empty() || model.unknown_chat_template();
  if (options.chat_template.empty() && !chats && has_template) return "";
  return std::string(data.settings.encoding.chat.name);
}

// Segment routing decides from whole segments of a sequence, which then has to be one example, as
// in prompt routing.
bool RoutesSegments(const v1::ModelConfig& model) {
  return UsesExperts(model) && model.routing().router() != v1::TOKEN_CHOICE;
}

// Returns the classes that the answers of a task have, which must be the same for all its examples.
absl::StatusOr<std::vector<std::string>> ClassesOfTask(const std::string& name) {
  ASSIGN_OR_RETURN(const v1::TaskSpec task, BuiltinTask(name));
  std::optional<std::vector<std::string>> classes = CommonChoices(task);
  if (classes) return *std::move(classes);
  return absl::InvalidArgumentError(
      absl::StrCat("--label-head: got task ", name,
                   ", whose answers differ between examples, expected a task with the same choices "
                   "for all, such as sst2, or --label-head=regression for numbers"));
}

// Returns the classes of tasks, which must be the same for all of them.
absl::StatusOr<std::vector<std::string>> ClassesOfTasks(const FinetuneOptions& options) {
  ASSIGN_OR_RETURN(const auto tasks, options.WeighedTasks());
  std::vector<std::string> classes;
  for (const auto& [name, weight] : tasks) {
    ASSIGN_OR_RETURN(std::vector<std::string> own, ClassesOfTask(name));
    if (!classes.empty() && own != classes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--label-head: got the classes ", absl::StrJoin(own, ", "), " of task ", name,
          ", expected those of task ", tasks[0].first, ": ", absl::StrJoin(classes, ", ")));
    }
    classes = std::move(own);
  }
  return classes;
}

// Returns what --label-head asks for; the classes of a model that has a head already, or of a task.
absl::StatusOr<std::optional<ExampleLabels>> LabelsOf(const FinetuneOptions& options,
                                                      const v1::ModelConfig& model) {
  if (!options.with_label_head) {
    RETURN_IF_ERROR(CheckPredictsTokens(model, "model without --label-head"));
    return std::nullopt;
  }
  if (options.loss_on == "everything") {
    return absl::InvalidArgumentError(
        "--loss-on: got everything with --label-head, expected answers: the last one is the label");
  }
  ExampleLabels labels{.regression = options.label_head == "regression", .classes = {}};
  if (labels.regression) return labels;
  const auto& classes = model.label_head().classes();
  labels.classes.assign(classes.begin(), classes.end());
  if (labels.classes.empty()) {
    ASSIGN_OR_RETURN(labels.classes, ClassesOfTasks(options));
  }
  return labels;
}

absl::StatusOr<SupervisedSettings> SettingsOf(const FinetuneOptions& options,
                                              const FinetuneData& data) {
  SupervisedSettings settings;
  ASSIGN_OR_RETURN(settings.encoding.chat, TemplateOf(options, data.sources, data.start));
  settings.encoding.loss_on = options.loss_on == "everything"    ? LossOn::kEverything
                              : options.loss_on == "last-answer" ? LossOn::kLastAnswer
                                                                 : LossOn::kAnswers;
  const int64_t model_length = data.start.model.sequence_length();
  settings.sequence_length = options.sequence_length > 0 ? options.sequence_length : model_length;
  settings.encoding.max_tokens = settings.sequence_length + 1;
  settings.encoding.start_id = StartTokenId(data.start.model, *data.tokenizer);
  settings.pack = !RoutesSegments(data.start.model);
  settings.validation_share = options.validation;
  settings.seed = options.seed;
  settings.strict = options.strict;
  ASSIGN_OR_RETURN(settings.labels, LabelsOf(options, data.start.model));
  settings.encoding.labels = settings.labels.has_value();
  return settings;
}

// Returns a name for the dataset: the tasks, or the first file without its extensions.
std::string NameOf(const FinetuneOptions& options, const FinetuneData& data) {
  if (!options.tasks.empty()) {
    return absl::StrJoin(options.tasks, "+", [](std::string* out, const std::string& task) {
      out->append(task, 0, task.rfind('='));
    });
  }
  const std::string file = std::filesystem::path(data.sources[0].path).filename().string();
  return file.substr(0, file.find('.'));
}

// Returns the dataset to store; it refers to `data`.
SupervisedDataset DatasetOf(const FinetuneOptions& options, const FinetuneData& data) {
  return {NameOf(options, data), data.plan,       data.sources,
          data.settings,         *data.tokenizer, data.tokenizer_bytes};
}

// Replaces the configuration of the model by that after its split.
absl::Status PlanSplit(const FinetuneOptions& options, FinetuneData* data) {
  ASSIGN_OR_RETURN(data->split, options.Split());
  if (!data->split) return absl::OkStatus();
  RETURN_IF_ERROR(CheckPlainLayers(data->start.model, "--experts",
                                   "its gate was trained for the FFNs that it has; split the model "
                                   "that it started from"));
  ASSIGN_OR_RETURN(data->start.model, ExpertSplitConfig(data->start.model, *data->split));
  return options.no_recompose ? absl::OkStatus() : CheckRecomposable(data->start.model);
}

// Where prepared data is kept.
struct Preparation {
  std::filesystem::path root;
  // The home whose deletions are kept from what is being prepared.
  std::filesystem::path home;
};

absl::StatusOr<Preparation> PlaceOf(const Session& session, const FinetuneOptions& options) {
  if (!session.embedded() && options.prepare_in.empty()) {
    return absl::InvalidArgumentError(
        "--prepare-in: got none, expected with --server a directory on a file system that the "
        "ranks share");
  }
  const std::filesystem::path home = AbsolutePath(session.options.home);
  Preparation place = {.root = home / "supervised", .home = home};
  if (!options.prepare_in.empty()) place.root = AbsolutePath(options.prepare_in);
  RETURN_IF_ERROR(MakeDirectories(place.root));
  return place;
}

// Returns a key of everything that the weights and the configuration after the split depend on.
absl::StatusOr<std::string> SplitKey(const FinetuneData& data) {
  ASSIGN_OR_RETURN(const std::string manifest, ReadFile(data.start.checkpoint / kManifestName));
  return StageKey("converted", kSplitVersion)
      .Add("source", manifest)
      .Add("model", ConfigText(data.start.model))
      .Add("method", static_cast<int32_t>(data.split->method()))
      .Add("seed", data.split->seed())
      .Hex();
}

// Sets the time of the last use, from which `braid gc` counts the age of prepared data. Errors, as
// with the directory of another user, are ignored.
void MarkUsed(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::last_write_time(directory, std::filesystem::file_time_type::clock::now(), error);
}

// Sets inputs->model to the model after its split, which the service writes unless a checkpoint of
// the same source, split and seed is there.
absl::Status StoreSplitModel(Session& session, const Preparation& place, const FinetuneData& data,
                             FinetuneInputs* inputs) {
  ASSIGN_OR_RETURN(const std::string key, SplitKey(data));
  const std::filesystem::path directory =
      place.root / absl::StrCat("converted-", key.substr(0, 16));
  ASSIGN_OR_RETURN(DirectoryUse use, DirectoryUse::Share(place.home, directory));
  inputs->uses.push_back(std::make_shared<const DirectoryUse>(std::move(use)));
  inputs->model = directory.string();
  if (VerifyCheckpoint(directory).ok()) {
    MarkUsed(directory);
    return absl::OkStatus();
  }
  std::cerr << "splitting " << data.start.checkpoint.string() << " into " << inputs->model
            << std::endl;
  v1::ConvertRequest request;
  request.set_model(data.start.checkpoint.string());
  request.set_output_dir(inputs->model);
  request.set_force(true);
  request.set_strict(true);
  *request.mutable_split() = *data.split;
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  ASSIGN_OR_RETURN(const v1::ConvertResponse response, client.Convert(request));
  std::cerr << absl::StrFormat("assigned the units to experts in %.1f s", response.split_seconds())
            << std::endl;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FinetuneData> PlanFinetuneData(Session& session, const FinetuneOptions& options) {
  FinetuneData data;
  ASSIGN_OR_RETURN(const std::string model, ModelDirectory(session, options.model));
  ASSIGN_OR_RETURN(data.start, FindStartingPoint(model));
  RETURN_IF_ERROR(PlanSplit(options, &data));
  const std::filesystem::path tokenizer = data.start.checkpoint / kTokenizerFile;
  ASSIGN_OR_RETURN(data.tokenizer_bytes, ReadFile(tokenizer));
  ASSIGN_OR_RETURN(data.tokenizer, Tokenizer::Parse(data.tokenizer_bytes, tokenizer));
  ASSIGN_OR_RETURN(const RecordSet records, ReadRecords(options));
  data.sources = records.sources;
  ASSIGN_OR_RETURN(data.settings, SettingsOf(options, data));
  data.new_template = NewTemplate(options, data);
  std::optional<RecordSet> validation;
  if (!options.validation_data.empty()) {
    ASSIGN_OR_RETURN(const auto fields, options.Fields());
    ASSIGN_OR_RETURN(validation, ReadRecordFiles(options.validation_data, options.format, fields));
  }
  ASSIGN_OR_RETURN(data.plan,
                   PlanSupervised(records, validation.has_value() ? &*validation : nullptr,
                                  *data.tokenizer, data.settings));
  return data;
}

absl::StatusOr<v1::RunSpec> ResolveFinetuneSpec(const FinetuneOptions& options, v1::RunSpec spec,
                                                const FinetuneData& data) {
  // The dataset has no directory yet: errors name its first source instead.
  spec.set_dataset_dir(data.sources[0].path);
  return ResolveRunSpec(spec, DescribeSupervised(DatasetOf(options, data), "not stored"),
                        data.start);
}

absl::StatusOr<FinetuneInputs> StoreFinetuneInputs(Session& session, const FinetuneOptions& options,
                                                   const FinetuneData& data) {
  ASSIGN_OR_RETURN(const Preparation place, PlaceOf(session, options));
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(place.root / "lock"));
  FinetuneInputs inputs;
  inputs.model = ModelReference(options.model);
  const SupervisedDataset dataset = DatasetOf(options, data);
  const std::string key = SupervisedKey(dataset);
  StageStore store(place.root, {.home = place.home});
  ASSIGN_OR_RETURN(const StoredStage stored, store.Produce("pack", key, [&](StageWriter& stage) {
    return WriteSupervised(dataset, key, &stage);
  }));
  if (stored.reused) MarkUsed(stored.directory);
  inputs.dataset = stored.directory;
  inputs.uses.push_back(stored.use);
  if (data.split) RETURN_IF_ERROR(StoreSplitModel(session, place, data, &inputs));
  return inputs;
}

}  // namespace braid
