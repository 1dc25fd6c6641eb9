// The options of `braid finetune`.
#ifndef BRAID_CLI_FINETUNE_OPTIONS_H_
#define BRAID_CLI_FINETUNE_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"
#include "braid/v1/model.pb.h"
#include "braid/v1/training.pb.h"
#include "cli/command.h"
#include "cli/field_flags.h"
#include "cli/launch_options.h"

namespace braid {

struct FinetuneOptions {
  std::string model;
  // Data.
  std::vector<std::string> data, tasks, validation_data, field_names;
  std::string format, chat_template, loss_on = "answers", prepare_in;
  double validation = .05;
  int64_t sequence_length = 0;
  uint64_t seed = 0;  // that of the run, RunSpec.seed
  bool strict = false;
  // The run.
  std::string lora, validate_every, request_id;
  std::string label_head;
  bool with_label_head = false, with_lora = false, no_recompose = false, dry_run = false,
       wait = false;
  double epochs = 0;
  std::vector<std::string> train, rates;
  FieldFlags fields{"braid.v1.RunSpec"}, split{"braid.v1.ExpertSplit", std::nullopt};
  LaunchOptions launch;
  ConfigOptions config;

  void AddTo(CLI::App* command);
  // Returns the settings of the run, without its model and its dataset.
  absl::StatusOr<v1::RunSpec> Spec() const;
  // Returns how to split the FFNs of the model for the run; nullopt without --experts.
  absl::StatusOr<std::optional<v1::ExpertSplit>> Split() const;
  // Returns --data without weights, and the weight of each value: FILE=WEIGHT, unless a file has
  // that name, and 1 without. InvalidArgument for a weight that is not positive.
  absl::StatusOr<std::vector<std::pair<std::string, double>>> WeighedData() const;
  // Returns --task without weights, and the weight of each value: NAME=WEIGHT, and 1 without.
  // InvalidArgument for a weight that is not positive and for a task that is named twice.
  absl::StatusOr<std::vector<std::pair<std::string, double>>> WeighedTasks() const;
  // Returns --field PART=NAME as a map. InvalidArgument for a value without '=' and for a part that
  // is named twice.
  absl::StatusOr<std::map<std::string, std::string>> Fields() const;
};

// Parses the value of --lora, such as "r=8,alpha=16,targets=q,v,layers=-1,-2,dropout=0.1,rs".
// InvalidArgument names the part that is malformed.
absl::StatusOr<v1::LoraConfig> ParseLora(const std::string& text);

}  // namespace braid

#endif  // BRAID_CLI_FINETUNE_OPTIONS_H_
