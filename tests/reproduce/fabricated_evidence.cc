#include "tests/reproduce/fabricated_evidence.h"

#include <random>

#include "reproduce/reproduction_plan.h"

namespace braid {
namespace {

// Windows of each domain.
constexpr int kWindowsOf[] = {16, 32, 64};
constexpr int kWindowLength = 256;

class EvidenceMaker {
 public:
  explicit EvidenceMaker(const LossOfRun& loss_of_run) : loss_of_run_(loss_of_run) {
    for (double& error : shared_) error = 0.3 * Normal();
  }

  ArmResult ResultOf(const Experiment& experiment, const PlannedRun& run, double gap) {
    ArmResult result{.arm = run.arm.name,
                     .order = run.order,
                     .seed = run.seed,
                     .num_experts = run.arm.num_experts()};
    const std::vector<PlannedScore> scores = experiment.scores(run);
    for (const PlannedScore& score : scores) result.heldout.push_back(ScoreOf(run, score));
    const int trained = run.arm.settings.model().routing().token().active_experts();
    for (int step = 1; step <= 20; ++step) {
      v1::StepMetrics& metrics = result.metrics.emplace_back();
      metrics.set_step(step);
      metrics.set_active_experts(trained);
      metrics.set_step_seconds(trained > 0 ? 0.8 : 1.0);
      metrics.set_gradient_norm(1);
      metrics.set_loss_after_first_segment(loss_of_run_(run, trained) + 1.1 - gap);
      if (!run.arm.settings.has_validation() || step % 2 != 0) continue;
      for (int d = 0; d < 3; ++d) {
        metrics.mutable_validation()->add_domains()->set_loss_after_first_segment(
            loss_of_run_(run, trained) + d);
      }
    }
    return result;
  }

 private:
  HeldoutScore ScoreOf(const PlannedRun& run, const PlannedScore& planned) {
    HeldoutScore score{.routing = planned.routing,
                       .first_positions = planned.first_positions,
                       .active_experts = planned.active_experts,
                       .dataset = planned.dataset};
    const int64_t later = kWindowLength - planned.first_positions;
    size_t index = 0;
    for (int d = 0; d < 3; ++d) {
      DomainWindows& domain = score.domains.emplace_back();
      domain.domain = std::string(1, static_cast<char>('a' + d));
      for (int w = 0; w < kWindowsOf[d]; ++w) {
        const double loss =
            loss_of_run_(run, planned.active_experts) + d + shared_[index++] + 0.002 * Normal();
        domain.windows.push_back(
            {0, planned.first_positions, loss * static_cast<double>(later), later});
      }
    }
    return score;
  }

  double Normal() { return std::normal_distribution<double>()(random_); }

  const LossOfRun& loss_of_run_;
  std::mt19937_64 random_{3};
  double shared_[16 + 32 + 64];
};

}  // namespace

Evidence FabricateEvidence(const Experiment& experiment, const LossOfRun& loss_of_run,
                           const std::function<double(const PlannedRun&)>& gap) {
  EvidenceMaker maker(loss_of_run);
  Evidence evidence;
  for (const PlannedRun& run : FullPlan(experiment).runs) {
    evidence.results.push_back(maker.ResultOf(experiment, run, gap ? gap(run) : 0));
  }
  return evidence;
}

}  // namespace braid
