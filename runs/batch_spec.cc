#include "runs/batch_spec.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr int64_t kMostGrowthSteps = int64_t{1} << 32;

absl::Status BadBatch(const char* field, const std::string& got, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("batch.", field, ": got ", got, ", expected ", expected));
}

BatchSchedule GrowingOver(const v1::RunSpec& spec, int64_t steps) {
  return {.full = spec.batch().global_batch_size(),
          .first = spec.batch().first_batch_size(),
          .unit = spec.world_size(),
          .growth_steps = steps};
}

// Returns the fewest steps n with sum(n) >= sequences, for a sum that grows with n.
template <class Sum>
int64_t FewestSteps(double sequences, Sum sum) {
  int64_t low = 0, high = kMostGrowthSteps + 1;  // too few, enough
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    // Epochs such as 0.3 have no exact double.
    (static_cast<double>(sum(middle)) >= sequences - 1e-6 ? high : low) = middle;
  }
  return high;
}

// Converts tokens and epochs of the growth itself, during which batches are smaller.
absl::Status ResolveBatchGrowth(const StepSize& size, v1::RunSpec* spec) {
  v1::TrainingLength* const growth = spec->mutable_batch()->mutable_warmup();
  ASSIGN_OR_RETURN(const v1::TrainingLength resolved, ResolveLength("batch.warmup", *growth, size));
  if (growth->has_tokens() || growth->has_epochs()) {
    const double sequences = SequencesOf(*growth, size);
    growth->Clear();
    growth->set_steps(FewestSteps(
        sequences, [&](int64_t steps) { return GrowingOver(*spec, steps).Before(steps); }));
    return absl::OkStatus();
  }
  *growth = resolved;
  return absl::OkStatus();
}

}  // namespace

absl::Status FillBatchGrowth(const StepSize& size, v1::RunSpec* spec) {
  const v1::BatchConfig& batch = spec->batch();
  if (!batch.has_warmup() && !batch.has_first_batch_size()) return absl::OkStatus();
  if (!batch.has_warmup()) {
    return BadBatch("warmup", "nothing with batch.first_batch_size",
                    "the length over which the batch grows, such as warmup.fraction=0.1");
  }
  const int32_t first = batch.first_batch_size(), ranks = spec->world_size();
  if (!batch.has_first_batch_size()) {
    return BadBatch("first_batch_size", "nothing with batch.warmup",
                    "the sequences of the first step");
  }
  if (first < 1 || first % ranks != 0) {
    return BadBatch("first_batch_size", absl::StrCat(first),
                    absl::StrCat("a multiple of the ranks (world_size: ", ranks, ")"));
  }
  if (first > batch.global_batch_size()) {
    return BadBatch("first_batch_size", absl::StrCat(first),
                    absl::StrCat("at most batch.global_batch_size, ", batch.global_batch_size()));
  }
  return ResolveBatchGrowth(size, spec);
}

BatchSchedule BatchScheduleOf(const v1::RunSpec& spec) {
  if (!spec.batch().has_warmup()) return {.full = spec.batch().global_batch_size()};
  return GrowingOver(spec, StepsOf(spec.batch().warmup(), spec.num_steps()));
}

int64_t StepsToRead(const v1::RunSpec& spec, double sequences) {
  if (!(sequences > 0)) return 0;
  return FewestSteps(sequences, [&](int64_t steps) {
    const v1::TrainingLength& growth = spec.batch().warmup();
    return spec.batch().has_warmup() ? GrowingOver(spec, StepsOf(growth, steps)).Before(steps)
                                     : spec.batch().global_batch_size() * steps;
  });
}

absl::Status CheckGrowthFits(const v1::RunSpec& spec) {
  const int64_t growth = BatchScheduleOf(spec).growth_steps;
  if (growth <= spec.num_steps()) return absl::OkStatus();
  return BadBatch(
      "warmup", absl::StrCat(growth, " steps"),
      absl::StrCat("at most the run's ", spec.num_steps(), "; shorten it or raise num_steps"));
}

}  // namespace braid
