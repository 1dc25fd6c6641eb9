#include "control/supervision/heartbeat_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"

namespace braid {
namespace {

// A longer time between two looks is one in which the watcher itself was stopped.
constexpr double kLongestPause = 3;
// Ranks send a heartbeat once a second; one and a half seconds allow for a late one.
constexpr double kLateBeat = 1.5;
// What was late before may be late again, and by a little more.
constexpr double kLateRatio = 1.25;
// Each further heartbeat leaves this part of the longest time between two of them, so that a busy
// minute is forgotten in the end.
constexpr double kGapMemory = 0.9;
// The rest counts, so that a rank which spins forever on a busy machine is found in the end.
constexpr double kExcusedShare = 0.9;
// A run may have thousands of ranks.
constexpr size_t kMaxNamedRanks = 8;

bool Waits(const v1::Heartbeat& beat) { return beat.phase() == "communication"; }

std::string NameOf(const v1::Heartbeat& beat) {
  return absl::StrCat("rank ", beat.rank(), " on ", beat.host());
}

std::string NamesOf(std::span<const v1::Heartbeat> beats) {
  std::vector<std::string> names;
  for (const v1::Heartbeat& beat : beats) names.push_back(NameOf(beat));
  return SomeOf(names, kMaxNamedRanks);
}

std::string Seconds(double seconds) { return absl::StrFormat("%.1f s", seconds); }

}  // namespace

double HangLimit(const v1::SupervisionConfig& config, std::span<const double> step_seconds) {
  if (step_seconds.empty()) return config.hang_seconds();
  std::vector<double> sorted(step_seconds.begin(), step_seconds.end());
  const double count = static_cast<double>(sorted.size());
  const auto place = sorted.begin() + static_cast<int64_t>(std::ceil(0.99 * count)) - 1;
  std::nth_element(sorted.begin(), place, sorted.end());
  return std::max(config.hang_seconds(), config.hang_steps() * *place);
}

HeartbeatWatch::HeartbeatWatch(int world_size, std::string nonce, WatchLimits limits, double now)
    : world_size_(world_size),
      nonce_(std::move(nonce)),
      limits_(limits),
      begin_(now),
      looked_at_(now),
      progress_at_(now) {}

void HeartbeatWatch::Look(std::span<const v1::Heartbeat> beats, double now,
                          const std::map<int, double>& starved) {
  const double passed = std::min(now - looked_at_, kLongestPause);
  if (const double missed = now - looked_at_ - kLongestPause; missed > 0) {
    begin_ += missed;
    progress_at_ += missed;
    for (auto& [number, rank] : ranks_) rank.changed_at += missed;
  }
  looked_at_ = now;
  Excuse(starved, passed, now);
  const bool was_opening = AnyOpening();
  for (const v1::Heartbeat& beat : beats) {
    if (beat.nonce() != nonce_) continue;
    Rank& rank = ranks_[beat.rank()];
    // Any other time is a new heartbeat, even an earlier one: its host's clock may be set back.
    if (rank.changed_at != 0 && rank.beat.time() == beat.time()) continue;
    const double gap = rank.changed_at != 0 ? now - rank.changed_at : 0;
    rank = {beat, now, std::max(gap, kGapMemory * rank.longest_gap)};
    if (beat.step() > newest_step_) {
      newest_step_ = beat.step();
      progress_at_ = now;
    }
  }
  // While a rank is opening, its step jumps from 0 to that of its checkpoint. That is not progress.
  if (first_step_ < 0 || was_opening || AnyOpening()) first_step_ = newest_step_;
}

void HeartbeatWatch::Excuse(const std::map<int, double>& starved, double passed, double now) {
  double longest = 0;
  for (const auto& [number, seconds] : starved) {
    const auto found = ranks_.find(number);
    if (found == ranks_.end()) continue;
    Rank& rank = found->second;
    const double excused = kExcusedShare * std::min(seconds, passed);
    rank.changed_at = std::min(now, rank.changed_at + excused);
    // Ranks starve at the same time, so the step is excused for the longest time, not for the sum.
    if (!Waits(rank.beat)) longest = std::max(longest, excused);
  }
  progress_at_ = std::min(now, progress_at_ + longest);
}

std::vector<v1::Heartbeat> HeartbeatWatch::beats() const {
  std::vector<v1::Heartbeat> beats;
  for (const auto& [number, rank] : ranks_) beats.push_back(rank.beat);
  return beats;
}

std::vector<v1::Heartbeat> HeartbeatWatch::SilentFirst() const {
  double first = looked_at_, last = 0;
  for (const auto& [number, rank] : ranks_) {
    first = std::min(first, rank.changed_at);
    last = std::max(last, rank.changed_at);
  }
  std::vector<v1::Heartbeat> silent;
  for (const auto& [number, rank] : ranks_) {
    // Ranks that stopped later were ended because of the first ones.
    const bool among_first = rank.changed_at < first + kLateBeat;
    const double late = std::max(kLateBeat, kLateRatio * rank.longest_gap);
    if (among_first && rank.changed_at < last - late) silent.push_back(rank.beat);
  }
  return silent;
}

std::optional<HeartbeatWatch::Hang> HeartbeatWatch::FindHang(double limit, double now) const {
  if (std::optional<Hang> hang = FindSilent(limit, now)) return hang;
  // No step can be completed without all ranks, so FindStuck would blame the others.
  if (std::ssize(ranks_) < world_size_) return FindUnreported(now);
  return FindStuck(limit, now);
}

std::optional<HeartbeatWatch::Hang> HeartbeatWatch::FindUnreported(double now) const {
  if (now - begin_ <= limits_.launch_seconds) return std::nullopt;
  std::vector<std::string> missing;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (!ranks_.contains(rank)) missing.push_back(absl::StrCat(rank));
  }
  const char* const label = missing.size() == 1 ? "rank " : "ranks ";
  return Hang{{},
              absl::StrCat("no heartbeat from ", label, SomeOf(missing, kMaxNamedRanks), " within ",
                           Seconds(now - begin_), " of the start of mpirun")};
}

// Heartbeats come from a separate thread in every rank, whatever the rank computes. A rank without
// heartbeats is therefore stopped, cut off or dead.
std::optional<HeartbeatWatch::Hang> HeartbeatWatch::FindSilent(double limit, double now) const {
  Hang hang;
  double age = 0;
  for (const auto& [number, rank] : ranks_) {
    if (now - rank.changed_at <= limit) continue;
    hang.ranks.push_back(rank.beat);
    age = std::max(age, now - rank.changed_at);
  }
  if (hang.ranks.empty()) return std::nullopt;
  hang.cause = absl::StrCat("no heartbeat from ", NamesOf(hang.ranks), " for ", Seconds(age),
                            " (expected once a second), last at step ", hang.ranks.front().step());
  if (const size_t others = ranks_.size() - hang.ranks.size(); others > 0) {
    absl::StrAppend(&hang.cause, "; ", others, " other ranks report");
  } else if (world_size_ > 1) {
    absl::StrAppend(&hang.cause, "; the other ranks are silent too");
  }
  return hang;
}

double HeartbeatWatch::StepLimit(double limit) const {
  for (const auto& [number, rank] : ranks_) {
    if (rank.beat.phase() == "opening" || rank.beat.phase() == "checkpoint") {
      return std::max(limit, limits_.long_phase_seconds);
    }
  }
  const bool first = !saw_step_ && newest_step_ == first_step_;
  return first ? std::max(limit, limits_.first_step_seconds) : limit;
}

bool HeartbeatWatch::AnyOpening() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& entry) { return entry.second.beat.phase() == "opening"; });
}

// A single rank has no link to another one that could be down.
bool HeartbeatWatch::AllWait() const {
  return std::ssize(ranks_) == world_size_ && world_size_ > 1 &&
         std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& entry) { return Waits(entry.second.beat); });
}

double HeartbeatWatch::AllWaitingFor(double now) const {
  return AllWait() ? now - progress_at_ : 0;
}

std::optional<HeartbeatWatch::Hang> HeartbeatWatch::FindStuck(double limit, double now) const {
  const double age = now - progress_at_;
  if (age <= StepLimit(limit)) return std::nullopt;
  Hang hang;
  hang.all_wait = AllWait();
  if (hang.all_wait) {
    hang.cause = absl::StrCat("no step after ", newest_step_, " for ", Seconds(age),
                              ": every rank reports and waits for the others");
    return hang;
  }
  std::vector<std::string> phases;
  for (const auto& [number, rank] : ranks_) {
    // A single rank has no other one to wait for.
    if (Waits(rank.beat) && world_size_ > 1) continue;
    hang.ranks.push_back(rank.beat);
    phases.push_back(absl::StrCat(NameOf(rank.beat), " in phase ", rank.beat.phase()));
  }
  hang.cause = absl::StrCat("no step after ", newest_step_, " for ", Seconds(age), ": ",
                            absl::StrJoin(phases, ", "));
  if (phases.empty()) {
    absl::StrAppend(&hang.cause, "all ranks that report wait");
  } else if (const size_t waiting = ranks_.size() - hang.ranks.size(); waiting > 0) {
    absl::StrAppend(&hang.cause, ", while ", waiting, " other ranks wait");
  }
  return hang;
}

}  // namespace braid
