#include "reproduce/task_contrast.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using ExampleValues = std::vector<double>;

std::string TunedOn(const SignedTuning& arm, const AskedTask& task) {
  return arm.tuned_on.empty() ? task.tuned_on : arm.tuned_on;
}

std::string TunedText(const SignedTuning& arm, const AskedTask& task, uint64_t seed) {
  return absl::StrCat("the run of ", arm.arm, " on ", TunedOn(arm, task), ", seed ", seed);
}

absl::StatusOr<SeedMeasurement> MeasureTasks(const Evidence& evidence, const TaskContrast& contrast,
                                             uint64_t seed) {
  SeedMeasurement measurement;
  for (const AskedTask& task : contrast.tasks) {
    ExampleValues differences;
    for (const SignedTuning& arm : contrast.arms) {
      ASSIGN_OR_RETURN(const ExampleValues* values,
                       TaskValues(evidence, arm, task, contrast.measure, seed));
      if (differences.empty()) differences.resize(values->size());
      if (differences.size() != values->size()) {
        return absl::FailedPreconditionError(
            absl::StrCat(TunedText(arm, task, seed), ", was scored on ", values->size(),
                         " examples of ", task.asked, ", another model on ", differences.size(),
                         "; repeat the experiment in a new directory"));
      }
      for (size_t i = 0; i < values->size(); ++i) differences[i] += arm.sign * (*values)[i];
    }
    measurement.push_back(TaskStratum(std::move(differences), contrast.tasks.size()));
  }
  return measurement;
}

}  // namespace

std::set<uint64_t> TunedSeeds(const Evidence& evidence) {
  std::set<uint64_t> seeds;
  for (const ArmResult& result : evidence.results) {
    if (!result.task.empty()) seeds.insert(result.seed);
  }
  return seeds;
}

absl::StatusOr<const std::vector<double>*> TaskValues(const Evidence& evidence,
                                                      const SignedTuning& arm,
                                                      const AskedTask& task, TaskMeasure measure,
                                                      uint64_t seed) {
  const auto is_tuned_so = [&](const ArmResult& result) {
    return result.arm == arm.arm && result.task == TunedOn(arm, task);
  };
  const auto run = std::ranges::find_if(evidence.results, [&](const ArmResult& result) {
    return is_tuned_so(result) && result.seed == seed;
  });
  if (run == evidence.results.end()) {
    if (std::ranges::none_of(evidence.results, is_tuned_so)) {
      return absl::NotFoundError(absl::StrCat("no run of ", arm.arm, " on ", TunedOn(arm, task)));
    }
    return absl::NotFoundError(absl::StrCat(TunedText(arm, task, seed), ", has no result"));
  }
  const TaskScore* const score = FindTaskScore(*run, task.asked, arm.scoring);
  const ExampleValues* values = nullptr;
  if (score != nullptr) {
    values = measure == TaskMeasure::kAnswerLoss ? &score->answer_losses : &score->figures;
  }
  if (values != nullptr && !values->empty()) return values;
  return absl::NotFoundError(absl::StrCat(TunedText(arm, task, seed), ", was not scored on ",
                                          task.asked, " in the required way"));
}

Stratum TaskStratum(std::vector<double> differences, size_t num_tasks) {
  RatioTerm term = {.coefficient = 1.0 / static_cast<double>(num_tasks)};
  term.denominators.assign(differences.size(), 1.0);
  term.numerators = std::move(differences);
  return {.terms = {std::move(term)}};
}

absl::StatusOr<EffectEstimate> TaskEffect(const Evidence& evidence, const TaskContrast& contrast,
                                          const PairedBootstrapOptions& options) {
  absl::Status missing = absl::NotFoundError("no model was fine-tuned");
  std::vector<SeedMeasurement> seeds;
  for (const uint64_t seed : TunedSeeds(evidence)) {
    absl::StatusOr<SeedMeasurement> measured = MeasureTasks(evidence, contrast, seed);
    if (measured.ok()) {
      seeds.push_back(*std::move(measured));
    } else if (measured.status().code() != absl::StatusCode::kNotFound) {
      return measured.status();
    } else {
      missing = measured.status();
    }
  }
  if (seeds.empty()) return missing;
  for (const SeedMeasurement& seed : seeds) {
    if (std::ranges::equal(seeds.front(), seed, {}, &Stratum::num_units, &Stratum::num_units)) {
      continue;
    }
    return absl::FailedPreconditionError(
        "models with different seeds were scored on different numbers of examples; repeat the "
        "experiment in a new directory");
  }
  return EstimateEffect(seeds, options);
}

}  // namespace braid
