#include "client/run_screen.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "client/follow.h"
#include "client/session.h"
#include "client/terminal/run_view.h"
#include "client/terminal/terminal_text.h"
#include "rpc/interrupt.h"
#include "rpc/service_patience.h"
#include "runs/run_state.h"

namespace braid {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(500);
constexpr int64_t kEventsOfHistory = 200;

// Reads the newest events of the run, as many as its loss curve shows.
LossHistory HistoryOf(TrainingClient& client, const std::string& id) {
  LossHistory history;
  const absl::StatusOr<v1::Run> run = client.GetRun(id);
  if (!run.ok() || run->last_event() == 0) return history;
  const auto add = [&](const v1::RunEvent& event) {
    if (event.has_metrics()) history.Add(event.metrics());
    return event.number() < run->last_event() && !Interrupted();
  };
  // After an error, the curve begins later.
  client.WatchRun(id, add, std::max<int64_t>(0, run->last_event() - kEventsOfHistory))
      .IgnoreError();
  return history;
}

// Returns the run without the fields that change with time alone.
std::string Essence(v1::Run run) {
  run.clear_eta_seconds();
  run.clear_effective_training_time();
  for (v1::Heartbeat& beat : *run.mutable_heartbeats()) beat.clear_time();
  return ToJson(run);
}

}  // namespace

absl::StatusOr<v1::Run> PollRun(TrainingClient& client, const std::string& id,
                                const std::function<void(const v1::Run&)>& show,
                                const std::function<void()>& on_lost,
                                std::chrono::milliseconds patience) {
  ServicePatience service(patience);
  while (!Interrupted()) {
    absl::StatusOr<v1::Run> run = client.GetRun(id);
    const bool was_lost = service.is_lost();
    const bool waits = service.Waits(run.status());
    if (run.ok()) {
      show(*run);
      if (HasEnded(run->state())) return run;
    } else if (!waits) {
      return OutlivingService(run.status(), id);
    } else if (!was_lost) {
      on_lost();
    }
    std::this_thread::sleep_for(kInterval);
  }
  return StoppedWatching(id);
}

absl::StatusOr<v1::Run> ShowRunOnScreen(TrainingClient& client, const std::string& id) {
  LossHistory history = HistoryOf(client, id);
  ScreenBlock screen(std::cout, STDOUT_FILENO);
  std::vector<std::string> lines;
  const auto show = [&](const v1::Run& run) {
    if (run.has_latest()) history.Add(run.latest());
    // Leaves the last column free, since a full line could wrap.
    lines = RunLines(run, history, UnixTime(), TerminalWidth(STDOUT_FILENO) - 1);
    screen.Draw(lines);
  };
  absl::StatusOr<v1::Run> run = PollRun(client, id, show, [&] {
    lines.emplace_back(kServiceAwayText);
    screen.Draw(lines);
  });
  // All lines, also those for which the screen had no room.
  screen.Erase();
  ScreenBlock(std::cout).Draw(lines);
  return run;
}

absl::StatusOr<v1::Run> PrintRunChanges(TrainingClient& client, const std::string& id) {
  std::string shown;
  const auto show = [&](const v1::Run& run) {
    std::string essence = Essence(run);
    if (essence == shown) return;
    shown = std::move(essence);
    std::cout << ToJson(run) << std::endl;
  };
  return PollRun(client, id, show,
                 [&] { std::cerr << id << ": " << kServiceAwayText << std::endl; });
}

}  // namespace braid
