#include "client/slot_screen.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "client/follow.h"
#include "client/terminal/run_view.h"
#include "proto/state_name.h"
#include "rpc/interrupt.h"
#include "runs/run_state.h"

namespace braid {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(300);
// At most this number of request ids is tried for a run; all but the last may be of deleted runs.
constexpr int kMaxRequestIds = 100;

class ClientLauncher : public RunLauncher {
 public:
  explicit ClientLauncher(TrainingClient& client) : client_(client) {}

  // The service refuses the request id of a deleted run, so the run is launched with another id. A
  // repeated command tries the ids in the same order and finds it.
  absl::StatusOr<v1::Run> Launch(const v1::LaunchRunRequest& request) override {
    absl::StatusOr<v1::Run> run = client_.LaunchRun(request);
    for (int id = 2; absl::IsAlreadyExists(run.status()) && id <= kMaxRequestIds; ++id) {
      v1::LaunchRunRequest other = request;
      other.set_request_id(absl::StrCat(request.request_id(), "-", id));
      run = client_.LaunchRun(other);
    }
    return run;
  }
  absl::StatusOr<v1::Run> Get(const std::string& id) override { return client_.GetRun(id); }
  absl::StatusOr<v1::Run> Resume(const std::string& id) override { return client_.ResumeRun(id); }

 private:
  TrainingClient& client_;
};

std::string Ending(const v1::Run& run) {
  if (run.state() != v1::RUN_SUCCEEDED) {
    return absl::StrFormat("%s: %s %s", run.id(), StateName(run.state()), run.error());
  }
  return absl::StrFormat("%s: %s, last loss %.3f, %s tokens/s", run.id(),
                         Counted(run.latest().step(), "step"), run.latest().loss(),
                         CompactCount(run.latest().tokens_per_second()));
}

TrainingSlots SlotsOf(const SlotPlan& plan, RunLauncher& launcher) {
  if (plan.slots_of_hosts.empty()) return TrainingSlots(launcher, plan.tasks, plan.slots);
  return TrainingSlots(launcher, plan.tasks, plan.slots_of_hosts);
}

class SlotScreen {
 public:
  SlotScreen(TrainingClient& client, const SlotPlan& plan, ProgressBoard& board,
             std::chrono::milliseconds patience)
      : plan_(plan),
        launcher_(client),
        slots_(SlotsOf(plan, launcher_)),
        shown_(plan.tasks.size(), false),
        board_(board),
        patience_(patience) {}

  absl::StatusOr<std::vector<v1::Run>> Follow() {
    // The first row, which is visible with any number of slots.
    if (!slots_.done()) ShowTotal();
    while (!slots_.done()) {
      RETURN_IF_ERROR(Advance());
      Show();
      if (Interrupted()) {
        return absl::CancelledError(
            "interrupted; started runs continue (see braid runs, braid stop); repeat the command "
            "to follow them");
      }
      if (!slots_.done()) std::this_thread::sleep_for(kPollInterval);
    }
    board_.Finish("runs", Outcome());
    std::vector<v1::Run> runs;
    for (size_t task = 0; task < plan_.tasks.size(); ++task) runs.push_back(slots_.run(task));
    return runs;
  }

 private:
  absl::Status Advance() {
    const absl::Status status = slots_.Advance();
    return patience_.Waits(status) ? absl::OkStatus() : status;
  }

  std::string Outcome() const {
    const int64_t failed = std::ssize(slots_.Failed());
    const int64_t skipped = std::ssize(plan_.tasks) - NumShown();
    std::string text = absl::StrCat(NumShown() - failed, " trained");
    if (failed > 0) absl::StrAppend(&text, ", ", failed, " failed");
    if (skipped > 0) absl::StrAppend(&text, ", ", skipped, " not started");
    return text;
  }

  void Show() {
    for (size_t task = 0; task < plan_.tasks.size(); ++task) ShowTask(task);
    ShowTotal();
  }

  void ShowTotal() {
    Progress progress;
    progress.done = NumShown();
    progress.total = static_cast<int64_t>(plan_.tasks.size());
    progress.unit = "runs";
    if (patience_.is_lost()) progress.detail = kServiceAwayText;
    // Not measured: the slots estimate the time left.
    progress.rate = 0;
    progress.eta_seconds = slots_.SecondsLeft() + plan_.seconds_afterwards;
    // At the end, Follow() prints the outcome instead.
    if (progress.done < progress.total) board_.Update("runs", progress);
  }

  void ShowTask(size_t task) {
    const v1::Run& run = slots_.run(task);
    const std::string& name = plan_.tasks[task].request.spec().name();
    if (slots_.active().contains(task)) {
      board_.Update(name, RunProgress(run.latest(), run.spec().num_steps(), run.eta_seconds()));
    } else if (!shown_[task] && HasEnded(run.state())) {
      shown_[task] = true;
      board_.Finish(name, Ending(run));
    }
  }

  int64_t NumShown() const { return std::ranges::count(shown_, true); }

  const SlotPlan& plan_;
  ClientLauncher launcher_;
  TrainingSlots slots_;
  std::vector<bool> shown_;
  ProgressBoard& board_;
  ServicePatience patience_;
};

}  // namespace

absl::StatusOr<std::vector<v1::Run>> FollowSlots(TrainingClient& client, const SlotPlan& plan,
                                                 ProgressBoard& board,
                                                 std::chrono::milliseconds patience) {
  return SlotScreen(client, plan, board, patience).Follow();
}

}  // namespace braid
