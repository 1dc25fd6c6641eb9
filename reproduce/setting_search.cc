#include "reproduce/setting_search.h"

#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// Main figures of the examples of one task [seed][arm][example]; the first arm is the plain one.
using TaskFigures = std::vector<std::vector<std::vector<double>>>;

absl::StatusOr<TaskFigures> FiguresOf(const Evidence& evidence, const SettingSearch& search,
                                      const AskedTask& task) {
  std::vector<std::string> arms = {search.plain};
  arms.insert(arms.end(), search.settings.begin(), search.settings.end());
  TaskFigures figures;
  size_t num_examples = 0;
  for (const uint64_t seed : TunedSeeds(evidence)) {
    figures.emplace_back();
    for (const std::string& arm : arms) {
      ASSIGN_OR_RETURN(const std::vector<double>* values,
                       TaskValues(evidence, {.arm = arm}, task, TaskMeasure::kFigure, seed));
      if (num_examples == 0) num_examples = values->size();
      if (values->size() != num_examples) {
        return absl::FailedPreconditionError(
            absl::StrCat("models were scored on different numbers of examples of ", task.asked,
                         "; repeat the experiment in a new directory"));
      }
      figures.back().push_back(*values);
    }
  }
  if (figures.empty()) return absl::NotFoundError("no model was fine-tuned");
  return figures;
}

// Returns the arm with the highest mean over all examples, or those with even or odd numbers.
size_t BestArm(const TaskFigures& figures, std::optional<size_t> parity) {
  size_t best = 1;
  double highest = -std::numeric_limits<double>::infinity();
  for (size_t arm = 1; arm < figures.front().size(); ++arm) {
    double sum = 0;
    for (const auto& of_seed : figures) {
      for (size_t i = 0; i < of_seed[arm].size(); ++i) {
        if (!parity.has_value() || i % 2 == *parity) sum += of_seed[arm][i];
      }
    }
    if (sum <= highest) continue;
    highest = sum;
    best = arm;
  }
  return best;
}

// Adds the gain of each seed on one task: `even` is the arm for examples with even numbers.
void AddGains(const TaskFigures& figures, size_t even, size_t odd, size_t num_tasks,
              std::vector<SeedMeasurement>* seeds) {
  seeds->resize(figures.size());
  for (size_t seed = 0; seed < figures.size(); ++seed) {
    std::vector<double> gains = figures[seed][even];
    for (size_t i = 1; i < gains.size(); i += 2) gains[i] = figures[seed][odd][i];
    for (size_t i = 0; i < gains.size(); ++i) gains[i] -= figures[seed][0][i];
    (*seeds)[seed].push_back(TaskStratum(std::move(gains), num_tasks));
  }
}

}  // namespace

absl::StatusOr<SearchedGain> GainOfSearch(const Evidence& evidence, const SettingSearch& search,
                                          const PairedBootstrapOptions& options) {
  SearchedGain gain;
  std::vector<SeedMeasurement> same, other;
  const size_t num_tasks = search.tasks.size();
  for (const AskedTask& task : search.tasks) {
    ASSIGN_OR_RETURN(const TaskFigures figures, FiguresOf(evidence, search, task));
    const size_t best = BestArm(figures, std::nullopt);
    gain.chosen.push_back(search.settings[best - 1]);
    AddGains(figures, best, best, num_tasks, &same);
    AddGains(figures, /*even=*/BestArm(figures, 1), /*odd=*/BestArm(figures, 0), num_tasks, &other);
  }
  gain.on_same_examples = EstimateEffect(same, options);
  gain.on_other_examples = EstimateEffect(other, options);
  return gain;
}

}  // namespace braid
