#include "cli/finetune_options.h"

#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/expert_split_flags.h"
#include "formats/chat_template.h"
#include "model/config/expert_split_config.h"
#include "pipeline/supervised/record_format.h"
#include "proto/stated_defaults.h"
#include "runs/training_length.h"

namespace braid {
namespace {

constexpr double kDefaultEpochs = 3;
constexpr double kMaxWeight = 1000;
// Matches the parameters of all gates of experts.
constexpr char kRouters[] = "*.mlp.router.*";
constexpr char kLoraForm[] = "r=N, alpha=X, dropout=X, targets=q,v, layers=N,N or rs";

// Returns the settings of adapters without a value of --lora.
std::string DefaultLora() {
  v1::LoraConfig lora;
  FillStatedDefaults(&lora);
  return absl::StrCat("r=", lora.rank());
}

absl::Status LoraError(const std::string& part) {
  return absl::InvalidArgumentError(
      absl::StrCat("--lora: got ", part, ", expected ", kLoraForm, " between commas"));
}

// Refuses settings of the run that this command determines.
absl::Status CheckLeftToFinetune(const v1::RunSpec& spec) {
  const auto refuse = [](const std::string& setting, const std::string& instead) {
    return absl::InvalidArgumentError(
        absl::StrCat(setting, ", expected nothing with finetune; ", instead));
  };
  if (!spec.init_from().empty()) {
    return refuse(absl::StrCat("init_from: got ", spec.init_from()),
                  "name the model to start from as the argument MODEL");
  }
  if (!spec.dataset_dir().empty() || spec.datasets_size() > 0) {
    return refuse(
        absl::StrCat(spec.datasets_size() > 0 ? "datasets" : "dataset_dir", ": got ",
                     spec.datasets_size() > 0 ? spec.datasets(0).dataset() : spec.dataset_dir()),
        "name the records to train on with --data");
  }
  if (spec.branch_from().empty()) return absl::OkStatus();
  return refuse(absl::StrCat("branch_from: got ", spec.branch_from()),
                "continue a run with: braid train --branch RUN@STEP");
}

// Sets one value of a key, or appends it to a list.
absl::Status SetLora(const std::string& key, const std::string& value, v1::LoraConfig* lora) {
  int32_t integer = 0;
  double number = 0;
  const std::string part = absl::StrCat(key, "=", value);
  if (key == "r" || key == "rank" || key == "layers") {
    if (!absl::SimpleAtoi(value, &integer)) return LoraError(part);
    if (key == "layers") {
      lora->add_layers(integer);
    } else {
      lora->set_rank(integer);
    }
  } else if (key == "alpha" || key == "dropout") {
    if (!absl::SimpleAtod(value, &number)) return LoraError(part);
    if (key == "alpha") {
      lora->set_alpha(number);
    } else {
      lora->set_dropout(number);
    }
  } else if (key == "targets" && !value.empty()) {
    lora->add_targets(value);
  } else {
    return LoraError(part);
  }
  return absl::OkStatus();
}

absl::Status AddRate(const std::string& text, v1::Finetuning* finetuning) {
  const size_t equals = text.rfind('=');
  double factor = 0;
  if (equals == text.npos || equals == 0 || !absl::SimpleAtod(text.substr(equals + 1), &factor)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rate: got ", text, ", expected PATTERN=FACTOR, such as 'model.layers.0.*=0.5'"));
  }
  v1::LearningRateGroup* const group = finetuning->add_learning_rates();
  group->set_pattern(text.substr(0, equals));
  group->set_factor(factor);
  return absl::OkStatus();
}

bool ParseWeight(const std::string& text, double* weight) {
  return absl::SimpleAtod(text, weight) && *weight > 0 && *weight <= kMaxWeight;
}

void AddValidationOptions(CLI::App* command, FinetuneOptions* options) {
  CLI::Option* const share =
      command
          ->add_option("--validation", options->validation,
                       "Share of the examples to hold out and validate on; 0 for none")
          ->check(NumberBetween(0, .9))
          ->capture_default_str();
  command
      ->add_option("--validation-data", options->validation_data,
                   "Files of records to validate on instead of a share")
      ->type_name("FILE")
      ->check(NotEmpty("a file"))
      ->excludes(share);
}

void AddDataOptions(CLI::App* command, FinetuneOptions* options) {
  const std::string other_group = command->option_defaults()->get_group();
  command->option_defaults()->group("Data");
  command
      ->add_option("--data", options->data,
                   "Files of JSON records (.json, .jsonl, also .gz and .zst), read WEIGHT times "
                   "a pass (default: 1); with --task, the directory of task files")
      ->type_name("FILE[=WEIGHT]")
      ->check(NotEmpty("a file"))
      ->required();
  command
      ->add_option("--task", options->tasks,
                   "Train on prompts and right answers of this task, read WEIGHT times a pass; "
                   "repeatable")
      ->type_name("NAME[=WEIGHT]")
      ->allow_extra_args(false);
  command
      ->add_option("--format", options->format,
                   "Format of the records (default: recognized by the first record of a file)")
      ->check(OneOf(RecordFormatNames()));
  command
      ->add_option("--field", options->field_names,
                   "Field that holds a part of the records, such as answer=output")
      ->type_name("PART=NAME");
  command
      ->add_option("--template", options->chat_template,
                   "Text and control tokens around turns (default: plain for prompts, texts and "
                   "tasks; for conversations that of the model, otherwise alpaca for alpaca "
                   "records and chatml)")
      ->check(OneOf(ChatTemplateNames()));
  command
      ->add_option("--loss-on", options->loss_on,
                   "Tokens that are targets: all answers, the last answer, or everything")
      ->check(OneOf({"answers", "last-answer", "everything"}))
      ->capture_default_str();
  command
      ->add_option_function<std::vector<std::string>>(
          "--label-head",
          [options](const std::vector<std::string>& values) {
            options->with_label_head = true;
            const bool stated = !values.empty() && !values[0].empty();
            options->label_head = stated ? values[0] : "classes";
          },
          "Train a linear head that predicts the answers as labels: classes (the default) or "
          "regression, whose answers are numbers [model.label_head]")
      ->type_name("KIND")
      ->expected(0, 1)
      ->check(OneOf({"classes", "regression"}));
  AddValidationOptions(command, options);
  command
      ->add_option("--sequence-length", options->sequence_length,
                   "Tokens of a training sequence (default: the model's)")
      ->check(IntegerBetween(2, INT32_MAX));
  command->add_flag(
      "--strict", options->strict,
      "Fail if a record would be rejected or cut, or is both trained and evaluated on");
  command
      ->add_option("--prepare-in", options->prepare_in,
                   "Directory for the prepared dataset, which the ranks must reach (default: "
                   "supervised/ of --home)")
      ->type_name("DIR");
  command->option_defaults()->group(other_group);
}

void AddExpertOptions(CLI::App* command, FinetuneOptions* options) {
  constexpr char kExperts[] = "Experts";
  const ExpertSplitFlags flags = AddExpertSplit(command, &options->split);
  flags.experts->group(kExperts);
  for (CLI::Option* const option : flags.others) option->needs(flags.experts)->group(kExperts);
  CLI::Option* const no_recompose =
      command
          ->add_flag("--no-recompose", options->no_recompose,
                     "Let braid export keep the experts instead of joining them to a dense model")
          ->needs(flags.experts)
          ->group(kExperts);
  command
      ->add_flag_callback(
          "--recompose", [] {},
          "Let braid export join the experts to the dense model that they are slices of (default)")
      ->needs(flags.experts)
      ->excludes(no_recompose)
      ->group(kExperts);
}

}  // namespace

absl::StatusOr<v1::LoraConfig> ParseLora(const std::string& text) {
  v1::LoraConfig lora;
  std::string key;
  std::set<std::string> given;
  const std::vector<std::string> parts = absl::StrSplit(text, ',', absl::SkipWhitespace());
  if (parts.empty()) return LoraError("no setting");
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const bool is_named = equals != part.npos || part == "rs";
    // A rank has two names.
    if (is_named && !given.insert(name == "rank" ? "r" : name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--lora: got ", name, " twice in ", text, ", expected each setting once"));
    }
    if (part == "rs") {
      lora.set_rs_lora(true);
      continue;
    }
    if (equals != part.npos) {
      key = name;
    } else if (key != "targets" && key != "layers") {
      return LoraError(part);
    }
    RETURN_IF_ERROR(SetLora(key, equals == part.npos ? part : part.substr(equals + 1), &lora));
  }
  return lora;
}

void FinetuneOptions::AddTo(CLI::App* command) {
  command->add_option("model", model, "Run id, run directory or checkpoint directory to start from")
      ->type_name("MODEL")
      ->required();
  AddDataOptions(command, this);
  command
      ->add_option_function<std::vector<std::string>>(
          "--lora",
          [this](const std::vector<std::string>& values) {
            with_lora = true;
            lora = values.empty() ? "" : values[0];
          },
          "Train low-rank adapters instead of all weights; SETTINGS, such as "
          "r=8,alpha=16,targets=q,v, may be left out [finetuning.lora]")
      ->type_name("SETTINGS")
      ->default_str(DefaultLora())
      ->expected(0, 1);
  command
      ->add_option("--train", train,
                   "Train only the parameters whose names match, such as 'model.layers.5.*' "
                   "[finetuning.train]")
      ->type_name("PATTERN");
  command
      ->add_option("--rate", rates,
                   "Factor of the learning rate of the parameters whose names match, such as "
                   "'model.layers.0.*=0.5' [finetuning.learning_rates]")
      ->type_name("PATTERN=FACTOR");
  fields.Add(command, "--label-smoothing", "finetuning.label_smoothing");
  fields.Add(command, "--embedding-noise", "finetuning.embedding_noise");
  fields.Add(command, "--self-contained", "finetuning.self_contained");
  AddExpertOptions(command, this);
  command->add_option("--epochs", epochs, "Passes over the examples (default: 3)")
      ->check(PositiveUpTo(1e6));
  fields.Add(command, "--steps", "num_steps")
      ->description("Number of optimizer steps, instead of --epochs [num_steps]");
  fields.Add(command, "--batch", "batch.global_batch_size");
  fields.Add(command, "--learning-rate", "optimizer.learning_rate")->check(PositiveUpTo(1000));
  command
      ->add_option("--validate-every", validate_every,
                   "Training between validations (default: one epoch) [validation.every]")
      ->type_name("LENGTH");
  fields.Add(command, "--patience", "validation.patience");
  fields.Add(command, "--ranks", "world_size");
  fields.Add(command, "--threads", "threads_per_rank");
  fields.Add(command, "--seed", "seed")
      ->description("Seed of the run and of the data's order (default: 0) [seed]");
  fields.Add(command, "--name", "name");
  command->add_option("--request-id", request_id,
                      "Idempotency key: a repeated request returns the existing run");
  command->add_flag("--dry-run", dry_run, "Show the plan and three encoded examples, then stop");
  command->add_flag("--wait", wait, "Follow the run until it ends");
  launch.AddTo(command);
  command->get_option("--dry-run")->excludes(command->get_option("--print-launch"));
  config.AddTo(command, "RunSpec");
}

absl::StatusOr<v1::RunSpec> FinetuneOptions::Spec() const {
  v1::RunSpec spec;
  RETURN_IF_ERROR(config.Apply(&spec));
  RETURN_IF_ERROR(fields.Apply(&spec));
  RETURN_IF_ERROR(CheckLeftToFinetune(spec));
  RETURN_IF_ERROR(launch.Apply(spec.mutable_launch()));
  spec.mutable_finetuning();
  if (with_lora) {
    ASSIGN_OR_RETURN(*spec.mutable_finetuning()->mutable_lora(), ParseLora(lora));
  }
  for (const std::string& pattern : train) spec.mutable_finetuning()->add_train(pattern);
  ASSIGN_OR_RETURN(const std::optional<v1::ExpertSplit> experts, Split());
  if (experts && !no_recompose) spec.mutable_finetuning()->set_recompose(true);
  // Adapters leave everything else as it is, but an untrained gate of a new split is of no use.
  if (experts && HasTrainedGate(*experts) && spec.finetuning().has_lora()) {
    spec.mutable_finetuning()->add_train(kRouters);
  }
  for (const std::string& rate : rates) {
    RETURN_IF_ERROR(AddRate(rate, spec.mutable_finetuning()));
  }
  if (spec.num_steps() == 0 && !spec.has_length()) {
    spec.mutable_length()->set_epochs(epochs > 0 ? epochs : kDefaultEpochs);
  } else if (epochs > 0) {
    return absl::InvalidArgumentError(
        "--epochs: got another length too (--steps, --set or --config), expected one; leave one "
        "out");
  }
  if (!validate_every.empty()) {
    ASSIGN_OR_RETURN(*spec.mutable_validation()->mutable_every(),
                     ParseTrainingLength("--validate-every", validate_every));
  }
  return spec;
}

absl::StatusOr<std::optional<v1::ExpertSplit>> FinetuneOptions::Split() const {
  v1::ExpertSplit asked;
  RETURN_IF_ERROR(split.Apply(&asked));
  if (asked.num_experts() == 0) return std::nullopt;
  asked.set_seed(seed);
  return asked;
}

absl::StatusOr<std::vector<std::pair<std::string, double>>> FinetuneOptions::WeighedTasks() const {
  std::vector<std::pair<std::string, double>> weighed;
  std::set<std::string> names;
  for (const std::string& text : tasks) {
    const size_t equals = text.rfind('=');
    const std::string name = text.substr(0, equals);
    double weight = 1;
    if (equals != text.npos && !ParseWeight(text.substr(equals + 1), &weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--task: got ", text,
                       ", expected NAME=WEIGHT with a weight above 0 and at "
                       "most ",
                       kMaxWeight, ", such as sst2=0.5"));
    }
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("--task: got ", name,
                                                     " twice, expected each task once; a weight "
                                                     "reads it more often, as in ",
                                                     name, "=2"));
    }
    weighed.emplace_back(name, weight);
  }
  return weighed;
}

absl::StatusOr<std::vector<std::pair<std::string, double>>> FinetuneOptions::WeighedData() const {
  std::vector<std::pair<std::string, double>> files;
  for (const std::string& text : data) {
    const size_t equals = text.rfind('=');
    std::error_code error;
    if (equals == text.npos || std::filesystem::exists(text, error)) {
      files.emplace_back(text, 1);
      continue;
    }
    double weight = 0;
    if (equals == 0 || !ParseWeight(text.substr(equals + 1), &weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--data: got ", text,
                       ", which is not a file, expected FILE=WEIGHT with a weight above 0 "
                       "and at most ",
                       kMaxWeight, ", such as chats.jsonl=0.5"));
    }
    files.emplace_back(text.substr(0, equals), weight);
  }
  return files;
}

absl::StatusOr<std::map<std::string, std::string>> FinetuneOptions::Fields() const {
  std::map<std::string, std::string> parts;
  for (const std::string& text : field_names) {
    const size_t equals = text.find('=');
    if (equals == text.npos || equals == 0 || equals + 1 == text.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--field: got ", text, ", expected PART=NAME, such as answer=output"));
    }
    const std::string part = text.substr(0, equals);
    if (!parts.emplace(part, text.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--field: got ", part, " twice, expected one field for each part"));
    }
  }
  return parts;
}

}  // namespace braid
