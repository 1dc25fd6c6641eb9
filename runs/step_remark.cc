#include "runs/step_remark.h"

#include "absl/strings/str_format.h"

namespace braid {
namespace {

std::string ActionText(const v1::LossSpike& spike) {
  switch (spike.action()) {
    case v1::SKIP_BATCH:
      return absl::StrFormat("batch skipped; 'braid explain' with --step %d lists its documents",
                             spike.step());
    case v1::ROLLBACK:
      return absl::StrFormat(
          "rolled back to the weights of step %d; batches of steps %d to %d skipped; "
          "'braid explain' with --step %d lists the documents of the spike",
          spike.first_skipped_step() - 1, spike.first_skipped_step(), spike.last_skipped_step(),
          spike.step());
    default:
      return "its batch was trained on (spikes.policy CONTINUE)";
  }
}

std::string SpikeText(const v1::LossSpike& spike) {
  return absl::StrFormat("step %d: loss spike: loss %.4g (z %.3g), gradient norm %.4g (z %.3g); %s",
                         spike.step(), spike.loss(), spike.loss_z(), spike.gradient_norm(),
                         spike.gradient_norm_z(), ActionText(spike));
}

}  // namespace

std::string StepRemark(const v1::StepMetrics& metrics) {
  std::string remark;
  if (metrics.has_spike()) remark = SpikeText(metrics.spike());
  if (!metrics.validation().stopped_early()) return remark;
  if (!remark.empty()) remark += "; ";
  const v1::ValidationMetrics& validation = metrics.validation();
  absl::StrAppendFormat(&remark,
                        "step %d: stopped early: no validation since step %d was better than its "
                        "%.4f nats per token",
                        metrics.step(), validation.best_step(), validation.best_loss());
  return remark;
}

}  // namespace braid
