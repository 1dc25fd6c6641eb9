#include "report/run_life.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runs/run_state.h"

namespace braid {
namespace {

// Text that occurs only in the events of steps.
constexpr size_t kStepEventHead = 64;

bool IsIdle(v1::RunState state) { return state == v1::RUN_STATE_UNSPECIFIED || HasEnded(state); }

// Events of steps are almost all events; they change only the time.
bool IsStepEvent(std::string_view line) {
  return line.substr(0, kStepEventHead).find("\"metrics\":") != std::string_view::npos;
}

}  // namespace

void RunLife::Apply(const v1::RunEvent& event) {
  if (started == 0) started = event.time();
  if (!stretches.empty() && !IsIdle(state)) stretches.back().end = event.time();
  ended = std::max(ended, event.time());
  if (event.has_incident()) incidents.push_back(event.incident());
  if (event.has_slow_rank() && !event.slow_rank().recovered()) {
    slow_ranks.push_back(event.slow_rank());
  }
  const v1::RunState next = event.state() == v1::RUN_STATE_UNSPECIFIED ? state : event.state();
  if (next == v1::RUN_STARTING && state != v1::RUN_STARTING) ++attempts;
  if (next != state && !IsIdle(next)) stretches.push_back({event.time(), event.time(), next});
  state = next;
}

double RunLife::LiveSeconds() const {
  double seconds = 0;
  for (const Stretch& stretch : stretches) seconds += stretch.end - stretch.start;
  return seconds;
}

absl::StatusOr<RunLife> ReadRunLife(const std::filesystem::path& events) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  RunLife life;
  std::ifstream file(events, std::ios::binary);
  std::string line, step_line;
  const auto apply = [&](const std::string& text) {
    v1::RunEvent event;
    if (!google::protobuf::util::JsonStringToMessage(text, &event, options).ok()) return false;
    life.Apply(event);
    return true;
  };
  // A last line without a newline is still being written.
  for (int64_t number = 1; std::getline(file, line) && !file.eof(); ++number) {
    if (IsStepEvent(line)) {
      std::swap(line, step_line);
      continue;
    }
    if (!apply(line)) {
      return absl::DataLossError(
          absl::StrCat(events.string(), ": line ", number, " is not an event"));
    }
    step_line.clear();
  }
  // The run has not ended: its newest step is the end of the last period.
  if (!step_line.empty()) apply(step_line);
  return life;
}

RunLife LifeOfSteps(std::span<const v1::StepMetrics> metrics) {
  RunLife life;
  if (metrics.empty() || metrics.front().time() <= 0) return life;
  life.started = metrics.front().time() - metrics.front().step_seconds();
  life.ended = metrics.back().time();
  life.attempts = 1;
  life.stretches = {{life.started, life.ended, v1::RUN_RUNNING}};
  return life;
}

double Goodput(const RunLife& life, std::span<const v1::StepMetrics> metrics) {
  double useful = 0;
  for (const v1::StepMetrics& step : metrics) useful += step.step_seconds();
  const double live = life.LiveSeconds();
  return useful > 0 && live > 0 ? useful / live : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace braid
