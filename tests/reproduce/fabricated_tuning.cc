#include "tests/reproduce/fabricated_tuning.h"

#include <map>
#include <random>

#include "reproduce/tuning_plan.h"

namespace braid {
namespace {

constexpr int kExamples = 200;

class TuningMaker {
 public:
  explicit TuningMaker(const LossOfTuning& loss_of_tuning) : loss_of_tuning_(loss_of_tuning) {}

  ArmResult ResultOf(const Experiment& experiment, const PlannedRun& run) {
    ArmResult result{.arm = run.arm.name, .order = run.order, .seed = run.seed, .task = run.task};
    if (run.task.empty()) return result;
    const TunedTask& tuned = TaskOfRun(experiment, run);
    for (const TaskScoring& scoring : ScoringsOf(run.arm, tuned)) {
      for (const std::string& name : tuned.trained()) {
        result.tasks.push_back(ScoreOf(run, name, scoring.name));
      }
      if (!scoring.further) continue;
      for (const std::string& further : tuned.further) {
        result.tasks.push_back(ScoreOf(run, further, scoring.name));
      }
    }
    return result;
  }

 private:
  TaskScore ScoreOf(const PlannedRun& run, const std::string& task, const std::string& scoring) {
    TaskScore score{.task = task, .scoring = scoring};
    std::vector<double>& shared = shared_[task];
    while (shared.size() < kExamples) shared.push_back(0.3 * Normal());
    for (const double error : shared) {
      score.answer_losses.push_back(loss_of_tuning_(run, task, scoring) + error + 0.01 * Normal());
      score.figures.push_back(score.answer_losses.back() < 0.6);
    }
    return score;
  }

  double Normal() { return std::normal_distribution<double>()(random_); }

  const LossOfTuning& loss_of_tuning_;
  std::mt19937_64 random_{5};
  std::map<std::string, std::vector<double>> shared_;
};

}  // namespace

Evidence FabricateTuning(const Experiment& experiment, const LossOfTuning& loss_of_tuning) {
  TuningMaker maker(loss_of_tuning);
  Evidence evidence;
  for (const PlannedRun& run : FullPlan(experiment).runs) {
    evidence.results.push_back(maker.ResultOf(experiment, run));
  }
  return evidence;
}

}  // namespace braid
