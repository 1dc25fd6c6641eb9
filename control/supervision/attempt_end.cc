#include "control/supervision/attempt_end.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "control/supervision/log_tail.h"
#include "control/supervision/mpirun_notice.h"
#include "control/supervision/rank_hosts.h"

namespace braid {
namespace {

constexpr char kMarker[] = "braid-supervisor: attempt ";
constexpr int64_t kNoticeBytes = 1 << 15;

std::string LogOfAttempt(const RunDirectory& run, int64_t max_bytes) {
  std::string log = LogTail(run, max_bytes);
  const size_t marker = log.rfind(kMarker);
  // The marker is out of reach when this attempt alone has written more than max_bytes.
  if (marker == std::string::npos) return log;
  const size_t end = log.find('\n', marker);
  return end == std::string::npos ? "" : log.substr(end + 1);
}

void AddRanks(const MpirunNotice& notice, const v1::LaunchConfig& launch,
              std::span<const v1::Heartbeat> beats, std::vector<v1::Heartbeat>* ranks) {
  if (notice.rank < 0) {
    const std::vector<v1::Heartbeat> lost = RanksOnNode(launch, beats, notice.node);
    ranks->insert(ranks->end(), lost.begin(), lost.end());
  }
  for (const v1::Heartbeat& beat : beats) {
    if (beat.rank() == notice.rank) ranks->push_back(beat);
  }
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// Returns `text` without digits and the letters of hexadecimal numbers: two causes that differ only
// in ranks, steps or the names of temporary files are alike.
std::string WithoutNumbers(std::string text) {
  std::erase_if(text, [](unsigned char c) { return absl::ascii_isxdigit(c); });
  return text;
}

}  // namespace

std::string AttemptMarker(const std::string& nonce) { return absl::StrCat(kMarker, nonce, "\n"); }

bool MayRetryAfter(std::optional<int> exit_code) {
  return exit_code != kExitUsage && exit_code != kExitNotFound;
}

AttemptEnd DescribeEnd(const RunDirectory& run, const v1::LaunchConfig& launch,
                       std::span<const v1::Heartbeat> beats,
                       std::span<const v1::Heartbeat> silent_first, std::optional<int> exit_code) {
  AttemptEnd end;
  std::vector<std::string> texts;
  for (const MpirunNotice& notice : ParseMpirunNotices(LogOfAttempt(run, kNoticeBytes))) {
    AddRanks(notice, launch, beats, &end.ranks);
    texts.push_back(TextOf(notice));
  }
  // mpirun does not always name the rank that ended first.
  if (end.ranks.empty()) {
    for (const v1::Heartbeat& beat : silent_first) {
      end.ranks.push_back(beat);
      texts.push_back(absl::StrCat("rank ", beat.rank(), " on ", beat.host(),
                                   " stopped sending heartbeats before the others"));
    }
  }
  end.cause = absl::StrCat("the trainer exited without writing exit.json",
                           exit_code ? absl::StrCat(" (mpirun: exit code ", *exit_code, ")")
                                     : " (exit code unknown: an earlier supervisor started mpirun)",
                           texts.empty() ? "" : ": ", absl::StrJoin(texts, ", "));
  // The log is quoted only where nothing else explains the end, so that causes stay short.
  if (!texts.empty()) return end;
  const std::string log = LogExcerpt(LogOfAttempt(run, kNoticeBytes));
  absl::StrAppend(&end.cause, "; ",
                  log.empty()
                      ? absl::StrCat(run.log().string(),
                                     " has no error message; the process may have been killed")
                      : absl::StrCat("the end of trainer.log:\n", log));
  return end;
}

std::string DescribeFailures(const google::protobuf::RepeatedPtrField<v1::RunIncident>& earlier,
                             const v1::RunIncident& last, int32_t restarts) {
  std::string text = last.cause();
  // Only the newest incidents are kept (kKeptIncidents), so there may be fewer than restarts.
  const int count = std::min<int>(earlier.size(), restarts);
  if (count == 0) return text;
  std::vector<std::string> same, others;
  for (int i = earlier.size() - count; i < earlier.size(); ++i) {
    // The end of trainer.log, which may follow the first line, differs between attempts.
    const std::string cause = FirstLine(earlier[i].cause());
    if (WithoutNumbers(cause) == WithoutNumbers(FirstLine(last.cause()))) {
      same.push_back(absl::StrCat(earlier[i].attempt()));
    } else {
      others.push_back(absl::StrCat("\n  attempt ", earlier[i].attempt(), ", step ",
                                    earlier[i].step(), ": ", cause));
    }
  }
  absl::StrAppend(&text, "\ngiving up: ", Counted(restarts, "restart"));
  if (std::ssize(same) == restarts) return absl::StrCat(text, " failed in the same way");
  absl::StrAppend(&text, " from step ", last.resumed_step(), " without a new checkpoint");
  if (!same.empty()) {
    absl::StrAppend(&text, "; attempt", same.size() > 1 ? "s " : " ", absl::StrJoin(same, ", "),
                    " ended in the same way");
  }
  if (!others.empty()) absl::StrAppend(&text, ":", absl::StrJoin(others, ""));
  return text;
}

}  // namespace braid
