#include "trainer/progress_line.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "runs/main_figures.h"

namespace braid {
namespace {

std::string Arithmetic(const v1::StepMetrics& m) {
  if (m.gflops() <= 0) return "";
  std::string text = absl::StrFormat("  %.1f GFLOP/s", m.gflops());
  if (m.model_flops_utilization() > 0) {
    absl::StrAppendFormat(&text, " (%.0f %%)", 100 * m.model_flops_utilization());
  }
  return text;
}

}  // namespace

std::string ProgressLine(const v1::StepMetrics& m, int64_t num_steps, const Pace& pace) {
  return absl::StrFormat("step %d/%d  loss %.4f  grad %.3f  lr %.2e  %.0f tokens/s%s  %s left",
                         m.step(), num_steps, m.loss(), m.gradient_norm(), m.learning_rate(),
                         m.tokens_per_second(), Arithmetic(m),
                         FormatClock(pace.SecondsLeft(num_steps)));
}

std::string ValidationLine(int64_t step, const v1::ValidationMetrics& validation) {
  std::string line =
      absl::StrCat("validation after step ", step, ": loss ", MainLoss(validation), " over ",
                   Counted(validation.num_windows(), "window"), " (best ", validation.best_loss(),
                   " after step ", validation.best_step(), ")");
  if (validation.has_accuracy()) absl::StrAppend(&line, ", accuracy ", validation.accuracy());
  return line;
}

}  // namespace braid
