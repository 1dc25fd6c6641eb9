#include "runs/training_length.h"

#include <cmath>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace braid {
namespace {

constexpr double kMaxLengthSteps = 4294967296.0;

absl::Status BadLength(const std::string& field, const std::string& got,
                       const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": got ", got, ", expected ", expected));
}

// Sets the steps that `amount` units take, when one step takes `per_step` of them.
absl::Status SetSteps(const std::string& field, double amount, double per_step,
                      v1::TrainingLength* length) {
  // Epochs such as 0.3 have no exact double, so whole steps are recognized with a tolerance.
  const double steps = std::ceil(amount / per_step - 1e-9);
  if (!(amount >= 0) || !(steps <= kMaxLengthSteps)) {
    return BadLength(field, absl::StrCat(amount), "a number of at least 0 and at most 2^32 steps");
  }
  length->Clear();
  length->set_steps(static_cast<int64_t>(steps));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::TrainingLength> ResolveLength(const std::string& field,
                                                 const v1::TrainingLength& length,
                                                 const StepSize& size) {
  const int units = int{length.has_fraction()} + int{length.has_steps()} +
                    int{length.has_tokens()} + int{length.has_epochs()};
  if (units != 1) {
    return BadLength(field, absl::StrCat(units, " units"),
                     "exactly one of fraction, steps, tokens and epochs");
  }
  if (length.has_fraction()) {
    const double share = length.fraction();
    if (share >= 0 && share < 1) return length;
    return BadLength(field, absl::StrCat("fraction ", share), "at least 0 and below 1");
  }
  const auto batch = static_cast<double>(size.global_batch_size);
  v1::TrainingLength resolved;
  absl::Status set;
  if (length.has_steps()) {
    set = SetSteps(field, static_cast<double>(length.steps()), 1, &resolved);
  } else if (length.has_tokens()) {
    set = SetSteps(field, length.tokens(), batch * static_cast<double>(size.sequence_length),
                   &resolved);
  } else {
    set = SetSteps(field, length.epochs(), batch / static_cast<double>(size.num_instances),
                   &resolved);
  }
  // Smaller batches take more steps, so what is out of range with full ones has been refused.
  if (set.ok() && size.growth.growth_steps > 0 && !length.has_steps()) {
    const auto steps = size.growth.StepsToRead(SequencesOf(length, size) - 1e-6);
    set = SetSteps(field, static_cast<double>(steps), 1, &resolved);
  }
  if (!set.ok()) return set;
  return resolved;
}

double SequencesOf(const v1::TrainingLength& length, const StepSize& size) {
  if (length.has_tokens()) return length.tokens() / static_cast<double>(size.sequence_length);
  return length.epochs() * static_cast<double>(size.num_instances);
}

int64_t StepsOf(const v1::TrainingLength& resolved, int64_t num_steps) {
  if (!resolved.has_fraction()) return resolved.steps();
  return static_cast<int64_t>(
      std::ceil(resolved.fraction() * static_cast<double>(num_steps) - 1e-9));
}

absl::StatusOr<v1::TrainingLength> ParseTrainingLength(const std::string& what,
                                                       const std::string& text) {
  absl::string_view number = text;
  v1::TrainingLength length;
  double value = 0;
  const bool tokens = absl::ConsumeSuffix(&number, "tokens");
  const bool epochs = !tokens && absl::ConsumeSuffix(&number, "epochs");
  const bool steps = !tokens && !epochs && absl::ConsumeSuffix(&number, "steps");
  const bool is_number = absl::SimpleAtod(number, &value) && std::isfinite(value) && value >= 0;
  const bool is_share = !steps && value < 1;
  // "1.0" would be one step, where "0.9" is a share.
  const bool is_whole = value == std::trunc(value) && value <= kMaxLengthSteps &&
                        (steps || !absl::StrContains(number, '.'));
  if (!is_number || (!tokens && !epochs && !is_share && !is_whole)) {
    return BadLength(what, absl::StrCat("\"", text.substr(0, 40), "\""),
                     "a share below 1 or a length such as 500steps, 1e9tokens or 1.5epochs");
  }
  if (tokens) {
    length.set_tokens(value);
  } else if (epochs) {
    length.set_epochs(value);
  } else if (is_share) {
    length.set_fraction(value);
  } else {
    length.set_steps(static_cast<int64_t>(value));
  }
  return length;
}

}  // namespace braid
