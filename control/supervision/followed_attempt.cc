#include "control/supervision/followed_attempt.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "control/supervision/attempt_end.h"
#include "control/supervision/attempt_files.h"
#include "control/supervision/rank_hosts.h"
#include "control/supervision/run_process.h"
#include "runs/process_identity.h"

namespace braid {
namespace {

// The pause between two reads of the heartbeats: five times what a read takes, within these bounds.
// With thousands of ranks on a file server a read takes seconds.
constexpr double kShortestLookSeconds = 0.2;
constexpr double kLongestLookSeconds = 1;
constexpr double kLookCostRatio = 5;
constexpr double kProbeSeconds = 1.5;

// Returns the largest increase of a thread between two results of RunQueueSeconds: a process cannot
// complete a step while one of its threads has no processor.
double LongestWait(const std::map<int64_t, double>& before, const std::map<int64_t, double>& now) {
  double longest = 0;
  for (const auto& [thread, seconds] : now) {
    const auto earlier = before.find(thread);
    if (earlier != before.end()) longest = std::max(longest, seconds - earlier->second);
  }
  return longest;
}

}  // namespace

FollowedAttempt::FollowedAttempt(const RunDirectory& run, const v1::RunSpec& spec,
                                 AttemptProcess process, WatchLimits limits)
    : run_(run),
      spec_(spec),
      process_(std::move(process)),
      watch_(spec.world_size(), process_.record().nonce, limits, SteadySeconds()),
      slow_ranks_(spec.supervision().slow_rank_ratio()) {}

void FollowedAttempt::Attach() { attached_ = true; }

void FollowedAttempt::Observe(Observation* seen) {
  // The process before the file: a trainer that exits between the two looks has written its
  // exit.json by the second, so a success is never mistaken for a death.
  seen->attempt = ended_                 ? AttemptPhase::kGone
                  : process_.IsRunning() ? AttemptPhase::kRunning
                                         : AttemptPhase::kExited;
  seen->exit = ExitOfAttempt(run_);
  if (seen->exit && !ended_) {
    if (!exited_at_) exited_at_ = SteadySeconds();
    // A trainer with a result is exiting, which is why it is silent.
    hang_.reset();
  }
  seen->exit_seconds = exited_at_ ? SteadySeconds() - *exited_at_ : 0;
  seen->attached = attached_;
  seen->reported = reported();
  seen->hung = hang_.has_value();
  seen->terminated = terminated_;
  seen->retryable = MayRetryAfter(process_.exit_code());
}

std::vector<v1::SlowRank> FollowedAttempt::FollowHeartbeats(double hang_limit) {
  const double now = SteadySeconds();
  if (!attached_ || ended_ || exited_at_ || now < look_at_ || !process_.IsRunning()) return {};
  TakeHeartbeats(now);
  const double end = SteadySeconds();
  look_at_ =
      end + std::clamp(kLookCostRatio * (end - now), kShortestLookSeconds, kLongestLookSeconds);
  ProbeWhenAllWait(hang_limit, now);
  // `now` is before the read: what a file server takes to answer must not count as silence.
  hang_ = watch_.FindHang(hang_limit, now);
  const std::vector<v1::Heartbeat> beats = watch_.beats();
  // The median of some ranks could make a normal rank look slow.
  if (std::ssize(beats) < spec_.world_size()) return {};
  return slow_ranks_.Look(beats);
}

void FollowedAttempt::TakeHeartbeats(double now) {
  watch_.Look(run_.ReadHeartbeats(), now, StarvedSeconds());
}

// Returns the seconds since the last call in which each rank on this machine was ready to run but
// had no processor. Ranks of other machines cannot be seen; the id of one may be in use here, too.
std::map<int, double> FollowedAttempt::StarvedSeconds() {
  std::map<int, double> starved;
  std::map<int, std::map<int64_t, double>> waited;
  for (const v1::Heartbeat& beat : watch_.beats()) {
    if (beat.host() != HostName() || !IsRankProcess(run_, beat.pid())) continue;
    std::map<int64_t, double>& threads = waited[beat.rank()] = RunQueueSeconds(beat.pid());
    const auto before = run_queue_seconds_.find(beat.rank());
    if (before != run_queue_seconds_.end()) {
      starved[beat.rank()] = LongestWait(before->second, threads);
    }
  }
  run_queue_seconds_ = std::move(waited);
  return starved;
}

// When every rank waits for the others, only the links between hosts are left to suspect. They are
// probed early enough for the answer to be there when the limit is reached.
void FollowedAttempt::ProbeWhenAllWait(double limit, double now) {
  if (watch_.AllWaitingFor(now) < std::max(limit - 2 * kProbeSeconds, limit / 3)) {
    probe_ = {};
  } else if (!probe_.valid()) {
    probe_ = ProbeHostsInBackground(AddressesOf(spec_.launch(), watch_.beats()), kProbeSeconds);
  }
}

void FollowedAttempt::AddUnreachableHosts() {
  if (!hang_ || !hang_->all_wait || !probe_.valid()) return;
  CutHosts cut = FindCutHosts(spec_.launch(), watch_.beats(), probe_.get(), HostName());
  hang_->ranks = std::move(cut.ranks);
  absl::StrAppend(&hang_->cause, "; ", cut.cause);
}

absl::Status FollowedAttempt::SignalRanks() { return braid::SignalRanks(run_, &signaled_); }

void FollowedAttempt::Terminate() {
  terminated_ = true;
  process_.Terminate();
}

// The heartbeats are read before the end, when those that fell silent first can still be
// distinguished from those that are about to be killed, and after it, for the last step that each
// rank reports. Ranks are killed even when mpirun has exited: it may have been killed itself and
// left them behind.
void FollowedAttempt::End() {
  if (attached_) TakeHeartbeats(SteadySeconds());
  silent_first_ = watch_.SilentFirst();
  AddUnreachableHosts();
  end_ = process_.End(run_);
  if (!end_.ok()) std::cerr << end_.message() << std::endl;
  ended_ = true;
  if (attached_) TakeHeartbeats(SteadySeconds());
}

void FollowedAttempt::AddCause(v1::RunIncident* incident) const {
  std::vector<v1::Heartbeat> ranks;
  if (hang_) {
    incident->set_cause(hang_->cause);
    if (!end_.ok()) absl::StrAppend(incident->mutable_cause(), "; ", std::string(end_.message()));
    ranks = hang_->ranks;
  } else {
    AttemptEnd end =
        DescribeEnd(run_, spec_.launch(), watch_.beats(), silent_first_, process_.exit_code());
    incident->set_cause(std::move(end.cause));
    ranks = std::move(end.ranks);
  }
  incident->mutable_ranks()->Assign(ranks.begin(), ranks.end());
}

}  // namespace braid
