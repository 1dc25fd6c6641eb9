#include "cli/finetune_data.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/file_lock.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/task_records.h"
#include "evaluation/tasks/task_spec.h"
#include "model/config/model_config.h"
#include "pipeline/store/stage_store.h"
#include "pipeline/supervised/supervised_dataset.h"
#include "runs/checkpoint.h"
#include "runs/start_token.h"

namespace braid {
namespace {

absl::StatusOr<RecordSet> ReadRecords(const FinetuneOptions& options) {
  if (options.task.empty()) {
    ASSIGN_OR_RETURN(const auto fields, options.Fields());
    return ReadRecordFiles(options.data, options.format, fields);
  }
  if (options.data.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data: got ", options.data.size(),
                     " values, expected one directory of task files with --task"));
  }
  ASSIGN_OR_RETURN(const v1::TaskSpec spec, BuiltinTask(options.task));
  return ReadTaskRecords(spec, options.data[0]);
}

// Returns the template that records of a format usually have.
std::string UsualTemplate(const std::string& format) {
  if (format == "alpaca") return "alpaca";
  return format == "messages" || format == "sharegpt" ? "chatml" : "plain";
}

absl::StatusOr<ChatTemplate> TemplateOf(const FinetuneOptions& options,
                                        const std::vector<RecordSource>& sources) {
  if (!options.chat_template.empty()) return FindChatTemplate(options.chat_template);
  std::set<std::string> usual;
  for (const RecordSource& source : sources) usual.insert(UsualTemplate(source.format));
  if (usual.size() == 1) return FindChatTemplate(*usual.begin());
  return absl::InvalidArgumentError(
      absl::StrCat("--template: got none for files of several formats, expected one of ",
                   absl::StrJoin(ChatTemplateNames(), ", ")));
}

// Segment routing decides from whole segments of a sequence, which then has to be one example, as
// in prompt routing.
bool RoutesSegments(const v1::ModelConfig& model) {
  return UsesExperts(model) && model.routing().router() != v1::TOKEN_CHOICE;
}

absl::StatusOr<SupervisedSettings> SettingsOf(const FinetuneOptions& options,
                                              const FinetuneData& data) {
  SupervisedSettings settings;
  ASSIGN_OR_RETURN(settings.encoding.chat, TemplateOf(options, data.sources));
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
  return settings;
}

// Returns a name for the dataset: the task, or the first file without its extensions.
std::string NameOf(const FinetuneOptions& options) {
  if (!options.task.empty()) return options.task;
  const std::string file = std::filesystem::path(options.data[0]).filename().string();
  return file.substr(0, file.find('.'));
}

}  // namespace

absl::StatusOr<FinetuneData> PlanFinetuneData(Session& session, const FinetuneOptions& options) {
  FinetuneData data;
  ASSIGN_OR_RETURN(const std::string model, ModelDirectory(session, options.model));
  ASSIGN_OR_RETURN(data.start, FindStartingPoint(model));
  const std::filesystem::path tokenizer = data.start.checkpoint / kTokenizerFile;
  ASSIGN_OR_RETURN(data.tokenizer_bytes, ReadFile(tokenizer));
  ASSIGN_OR_RETURN(data.tokenizer, Tokenizer::Parse(data.tokenizer_bytes, tokenizer));
  ASSIGN_OR_RETURN(const RecordSet records, ReadRecords(options));
  data.sources = records.sources;
  ASSIGN_OR_RETURN(data.settings, SettingsOf(options, data));
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

absl::StatusOr<std::filesystem::path> StoreFinetuneData(const Session& session,
                                                        const FinetuneOptions& options,
                                                        const FinetuneData& data) {
  if (!session.embedded() && options.prepare_in.empty()) {
    return absl::InvalidArgumentError(
        "--prepare-in: got none with --server, expected a directory on a file system that the "
        "ranks share");
  }
  const std::filesystem::path root =
      options.prepare_in.empty() ? std::filesystem::absolute(session.options.home) / "supervised"
                                 : std::filesystem::path(AbsolutePath(options.prepare_in));
  RETURN_IF_ERROR(MakeDirectories(root));
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(root / "lock"));
  const SupervisedDataset dataset = {NameOf(options), data.plan,       data.sources,
                                     data.settings,   *data.tokenizer, data.tokenizer_bytes};
  const std::string key = SupervisedKey(dataset);
  StageStore store(root);
  ASSIGN_OR_RETURN(const StoredStage stored, store.Produce("pack", key, [&](StageWriter& stage) {
    return WriteSupervised(dataset, key, &stage);
  }));
  return stored.directory;
}

}  // namespace braid
