// Prints what `braid finetune` is about to do.
#ifndef BRAID_CLI_FINETUNE_PREVIEW_H_
#define BRAID_CLI_FINETUNE_PREVIEW_H_

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/forecast.pb.h"
#include "braid/v1/training.pb.h"
#include "cli/finetune_data.h"

namespace braid {

// Returns the number of optimizer steps of the run on the planned data.
absl::StatusOr<int64_t> PlannedSteps(const v1::RunSpec& spec, const FinetuneData& data);

// Prints sources, counts, packing and steps, one finding a line.
void PrintFinetunePlan(const v1::RunSpec& spec, const FinetuneData& data, int64_t num_steps,
                       std::ostream& out);
// Prints the parameters that are trained, the memory of a rank, and the time of the steps at the
// rate of the forecast.
void PrintFinetuneForecast(const v1::Forecast& forecast, int64_t num_parameters, int64_t num_steps,
                           std::ostream& out);

// Prints the tokens of an example with their ids, one a line, and marks those that are targets.
// Long stretches of either kind are shortened. With a label, the tokens are the prompt and its end,
// which is not shown.
void PrintEncodedExample(const std::string& place, std::span<const int32_t> tokens,
                         std::span<const TokenRange> targets, const std::string& label,
                         const Tokenizer& tokenizer, std::ostream& out);

// Prints three training examples: the first, the middle and the last one.
void PrintEncodedExamples(const FinetuneData& data, std::ostream& out);

// Returns the plan, its counts and three encoded examples as JSON (braid finetune --dry-run
// --json).
nlohmann::json FinetunePlanJson(const FinetuneData& data, int64_t num_steps);

}  // namespace braid

#endif  // BRAID_CLI_FINETUNE_PREVIEW_H_
