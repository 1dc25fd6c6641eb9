#include "client/terminal/run_view.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/tables.h"
#include "client/terminal/terminal_text.h"
#include "proto/state_name.h"
#include "runs/main_figures.h"
#include "runs/run_state.h"
#include "runs/step_remark.h"

namespace braid {
namespace {

constexpr int kLabelWidth = 12;
constexpr size_t kHistory = 400;
constexpr int kRanksShown = 8;
constexpr int kIncidentsShown = 5;
constexpr int kDomainsShown = 16;
// Ranks write a heartbeat every second.
constexpr double kLateHeartbeatSeconds = 5;

// Collects lines and cuts each to the width.
class Lines {
 public:
  explicit Lines(int width) : width_(width) {}

  void Add(std::string text) {
    absl::StripTrailingAsciiWhitespace(&text);
    lines_.push_back(ClipColumns(text, width_));
  }
  void Field(const std::string& name, const std::string& value) {
    Add(absl::StrFormat("%-*s %s", kLabelWidth, name, value));
  }
  // Adds a value that may have several lines; longer lines are wrapped.
  void Text(const std::string& name, const std::string& value) {
    std::string label = name;
    const int columns = std::max(20, width_ - kLabelWidth - 1);
    // First, because LineLength counts the bytes of the text that ClipColumns returns.
    const std::string printable = PrintableText(value);
    for (const absl::string_view paragraph : absl::StrSplit(printable, '\n')) {
      for (size_t at = 0; at == 0 || at < paragraph.size();) {
        const size_t length = LineLength(paragraph.substr(at), columns);
        Field(std::exchange(label, ""), std::string(paragraph.substr(at, length)));
        at += std::max<size_t>(length, 1);
        while (at < paragraph.size() && paragraph[at] == ' ') ++at;
      }
    }
  }
  int width() const { return width_; }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  // Returns the bytes of the first line: up to the last blank within the width.
  static size_t LineLength(absl::string_view text, int columns) {
    const size_t fits = ClipColumns({text.data(), text.size()}, columns).size();
    if (fits == text.size()) return fits;
    const size_t blank = text.substr(0, fits).rfind(' ');
    return blank == absl::string_view::npos || blank == 0 ? fits : blank;
  }

  const int width_;
  std::vector<std::string> lines_;
};

std::string ClockTime(double unix_seconds) {
  return absl::FormatTime("%H:%M:%S", absl::UnixEpoch() + absl::Seconds(unix_seconds),
                          absl::LocalTimeZone());
}

std::string State(const v1::Run& run) {
  std::string text = StateName(run.state());
  if (run.attempts() > 1) absl::StrAppend(&text, ", attempt ", run.attempts());
  if (!run.scheduler_job().empty()) absl::StrAppend(&text, ", job ", run.scheduler_job());
  // Callers without a token have the name "local".
  if (!run.principal().empty() && run.principal() != "local") {
    absl::StrAppend(&text, ", launched by ", run.principal());
  }
  return text;
}

std::string StepProgress(const v1::Run& run) {
  const double num_steps = static_cast<double>(run.spec().num_steps());
  // The settings of the run could not be read.
  if (!(num_steps > 0)) return absl::StrCat("step ", WithThousands(run.latest().step()));
  const double fraction = run.latest().step() / num_steps;
  std::string text =
      absl::StrFormat("%s %3.0f %%  step %s of %s", Bar(fraction), 100 * fraction,
                      WithThousands(run.latest().step()), WithThousands(run.spec().num_steps()));
  if (run.eta_seconds() > 0) absl::StrAppend(&text, "  ETA ", FormatClock(run.eta_seconds()));
  return text;
}

std::string Loss(const v1::StepMetrics& step) {
  // Sequences of one segment have no later ones.
  if (step.loss_after_first_segment() == 0) return absl::StrFormat("%.4f", step.loss());
  return absl::StrFormat("%.4f (%.4f without the first segment)", step.loss(),
                         step.loss_after_first_segment());
}

// Returns "12.0k tokens/s, 85.1 GFLOP/s, 64 % of the peak".
std::string Speed(const v1::StepMetrics& step) {
  std::string text = absl::StrFormat("%s tokens/s", CompactCount(step.tokens_per_second()));
  if (step.gflops() > 0) absl::StrAppendFormat(&text, ", %.1f GFLOP/s", step.gflops());
  if (step.model_flops_utilization() > 0) {
    absl::StrAppendFormat(&text, ", %.0f %% of the peak", 100 * step.model_flops_utilization());
  }
  return text;
}

// Returns means over the layers with experts, and the layer that is closest to router collapse.
std::string ExpertHealth(const v1::StepMetrics& metrics) {
  const v1::LayerRouting* least = &metrics.routing(0);
  double effective = 0, active = 0, cosine = 0;
  for (const v1::LayerRouting& layer : metrics.routing()) {
    if (layer.effective_experts() < least->effective_experts()) least = &layer;
    effective += layer.effective_experts();
    active += layer.active_experts();
    cosine += layer.expert_cosine();
  }
  const double layers = metrics.routing_size();
  return absl::StrFormat("%.1f of %d effective (%.1f in layer %d), %.1f active, cosine %.3f",
                         effective / layers, least->mean_weights_size(), least->effective_experts(),
                         least->layer(), active / layers, cosine / layers);
}

// Returns "2.4313 at the last validation, best 2.4011 after step 1,200; accuracy 91.2 %".
std::string ValidationText(const v1::ValidationMetrics& validation) {
  std::string text =
      absl::StrFormat("%.4f at the last validation, best %.4f after step %s", MainLoss(validation),
                      validation.best_loss(), WithThousands(validation.best_step()));
  if (validation.has_accuracy()) {
    absl::StrAppendFormat(&text, "; accuracy %.1f %%", 100 * validation.accuracy());
  }
  return text + (validation.stopped_early() ? "; stopped early" : "");
}

// Returns "books 2.3120, wiki 2.5506"; with several datasets, the name of the directory is before
// each domain: "pack-1f3c books 2.3120".
std::string DomainLosses(const v1::ValidationMetrics& validation) {
  std::vector<std::string> losses;
  for (const v1::ValidationDomain& domain : validation.domains()) {
    if (std::ssize(losses) == kDomainsShown) {
      losses.push_back(absl::StrCat("and ", validation.domains_size() - kDomainsShown, " more"));
      break;
    }
    const std::string dataset = std::filesystem::path(domain.dataset()).filename().string();
    losses.push_back(absl::StrFormat("%s%s%s %.4f", dataset, dataset.empty() ? "" : " ",
                                     domain.domain(), MainLoss(domain)));
  }
  return absl::StrJoin(losses, ", ");
}

void AddProgress(const v1::Run& run, const LossHistory& history, Lines& lines) {
  if (!run.has_latest()) return;
  lines.Field("progress", StepProgress(run));
  lines.Field("loss", Loss(run.latest()));
  const std::vector<double> losses = history.Newest(lines.width() - kLabelWidth - 1);
  if (losses.size() > 1) lines.Field("", Sparkline(losses));
  if (run.has_validation()) {
    lines.Field("validation", ValidationText(run.validation()));
    if (run.validation().domains_size() > 1) lines.Text("", DomainLosses(run.validation()));
  }
  lines.Field("speed", Speed(run.latest()));
  if (run.effective_training_time() > 0) {
    lines.Field("goodput", absl::StrFormat("%.0f %% of the time since the launch",
                                           100 * run.effective_training_time()));
  }
  if (run.latest().routing_size() > 0) lines.Field("experts", ExpertHealth(run.latest()));
}

const v1::SlowRank* SlownessOf(const v1::Run& run, int rank) {
  for (const v1::SlowRank& slow : run.slow_ranks()) {
    if (slow.rank() == rank) return &slow;
  }
  return nullptr;
}

std::string Remark(const v1::Run& run, const v1::Heartbeat& beat, double age) {
  if (const v1::SlowRank* slow = SlownessOf(run, beat.rank()); slow != nullptr) {
    return absl::StrFormat("slow: %.1f x median", slow->ratio());
  }
  return !HasEnded(run.state()) && age > kLateHeartbeatSeconds ? "silent" : "";
}

// Returns the ranks by priority: slow ranks, then silent ranks, then the others.
std::vector<const v1::Heartbeat*> RanksByUrgency(const v1::Run& run) {
  std::vector<const v1::Heartbeat*> ranks;
  for (const v1::Heartbeat& beat : run.heartbeats()) ranks.push_back(&beat);
  const auto urgency = [&](const v1::Heartbeat* beat) {
    return std::pair(SlownessOf(run, beat->rank()) == nullptr, beat->time());
  };
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](const auto* a, const auto* b) { return urgency(a) < urgency(b); });
  ranks.resize(std::min<size_t>(ranks.size(), kRanksShown));
  std::sort(ranks.begin(), ranks.end(),
            [](const auto* a, const auto* b) { return a->rank() < b->rank(); });
  return ranks;
}

void AddRanks(const v1::Run& run, double now, Lines& lines) {
  if (run.heartbeats().empty()) return;
  lines.Add(
      absl::StrFormat("%4s  %-20s %8s  %8s  %9s", "rank", "host", "step", "seen", "own work"));
  for (const v1::Heartbeat* beat : RanksByUrgency(run)) {
    const double age = std::max(0.0, now - beat->time());
    lines.Add(absl::StrFormat(
        "%4d  %-20s %8s  %8s  %9s  %s", beat->rank(), ClipColumns(beat->host(), 20),
        WithThousands(beat->step()),
        HasEnded(run.state()) ? ClockTime(beat->time()) : absl::StrFormat("%.1f s", age),
        beat->busy_seconds() > 0 ? absl::StrFormat("%.3f s", beat->busy_seconds()) : "-",
        Remark(run, *beat, age)));
  }
  const int hidden = run.heartbeats_size() - kRanksShown;
  if (hidden > 0) lines.Add(absl::StrFormat("      and %d more", hidden));
}

std::string IncidentText(const v1::RunIncident& incident) {
  std::string text =
      absl::StrFormat("%s  attempt %d ended at step %s: %s", ClockTime(incident.time()),
                      incident.attempt(), WithThousands(incident.step()), incident.cause());
  if (incident.restart_after_seconds() > 0) {
    absl::StrAppend(&text, "; restarted from step ", WithThousands(incident.resumed_step()));
  }
  return text;
}

void AddIncidents(const v1::Run& run, Lines& lines) {
  const int first = std::max(0, run.incidents_size() - kIncidentsShown);
  for (int i = first; i < run.incidents_size(); ++i) {
    lines.Text(i == first ? "restarts" : "", IncidentText(run.incidents(i)));
  }
}

void AddSpikes(const v1::Run& run, Lines& lines) {
  const int first = std::max(0, run.spikes_size() - kIncidentsShown);
  for (int i = first; i < run.spikes_size(); ++i) {
    v1::StepMetrics metrics;
    *metrics.mutable_spike() = run.spikes(i);
    lines.Text(i == first ? "spikes" : "", StepRemark(metrics));
  }
}

}  // namespace

void LossHistory::Add(const v1::StepMetrics& step) {
  if (step.step() <= newest_step_) return;
  newest_step_ = step.step();
  losses_.push_back(step.loss());
  if (losses_.size() > kHistory) losses_.pop_front();
}

std::vector<double> LossHistory::Newest(int count) const {
  const size_t taken = std::min(losses_.size(), static_cast<size_t>(std::max(count, 0)));
  return {losses_.end() - static_cast<std::ptrdiff_t>(taken), losses_.end()};
}

std::vector<std::string> RunLines(const v1::Run& run, const LossHistory& history, double now,
                                  int width) {
  Lines lines(width);
  lines.Field("run", absl::StrCat(run.id(), "  ", NameText(run.spec().name())));
  lines.Field("state", State(run));
  if (!run.reason().empty()) lines.Text("reason", run.reason());
  if (!run.error().empty()) lines.Text("error", run.error());
  AddProgress(run, history, lines);
  AddRanks(run, now, lines);
  AddIncidents(run, lines);
  AddSpikes(run, lines);
  lines.Field("directory", run.run_dir());
  return lines.Take();
}

std::string StoppedText(const v1::Run& run) {
  const int64_t trained = run.latest().step();
  // Earlier versions of the server do not report the checkpoint.
  const int64_t saved = run.has_checkpoint_step() ? run.checkpoint_step() : trained;
  const std::string lost =
      saved + 1 < trained ? absl::StrCat(" (steps ", saved + 1, " to ", trained, " were not saved)")
      : saved + 1 == trained ? absl::StrCat(" (step ", trained, " was not saved)")
                             : "";
  const std::string where =
      saved == 0 && trained > 0 ? "without a checkpoint" : absl::StrCat("after step ", saved);
  return absl::StrCat(run.id(), " stopped ", where, lost, "; resume it with: braid resume ",
                      run.id());
}

}  // namespace braid
