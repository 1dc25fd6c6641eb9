// The options of `braid train` for the course of a run: length, learning rate schedule, validation,
// loss spikes, and branching from another run.
#ifndef BRAID_CLI_TRAINING_OPTIONS_H_
#define BRAID_CLI_TRAINING_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "cli/field_flags.h"

namespace braid {

struct TrainingOptions {
  // Lengths such as "0.1", "500", "1e9tokens" or "1.5epochs"; empty when not given.
  std::string length, warmup, decay, validate_every;
  std::string schedule, spike_policy, branch;
  FieldFlags fields{"braid.v1.RunSpec"};

  void AddTo(CLI::App* command);
  // Sets the fields whose options were given; other fields of `spec` keep their values.
  // InvalidArgument names the option, what it got and what it expected.
  absl::Status Apply(v1::RunSpec* spec) const;
};

}  // namespace braid

#endif  // BRAID_CLI_TRAINING_OPTIONS_H_
