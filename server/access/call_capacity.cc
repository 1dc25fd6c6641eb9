#include "server/access/call_capacity.h"

#include "absl/strings/str_cat.h"

namespace braid {

int CallCapacity::LimitOf(CallKind kind) const {
  switch (kind) {
    case CallKind::kNamed:
      return limits_.named;
    case CallKind::kBlocking:
      return limits_.blocking;
    case CallKind::kOpen:
      return limits_.open;
    case CallKind::kOpenWatch:
      return limits_.open_watches;
    case CallKind::kRefused:
      return limits_.refused;
  }
  return 0;
}

int CallCapacity::LimitOfOne(CallKind kind) const {
  if (kind == CallKind::kNamed) return limits_.named_of_one;
  return kind == CallKind::kBlocking ? limits_.blocking_of_one : 0;
}

absl::Status CallCapacity::Enter(CallKind kind, const std::string& principal) {
  const std::lock_guard lock(mutex_);
  int& taken = taken_[kind];
  if (taken >= LimitOf(kind)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server is at its limit of ", LimitOf(kind),
                     " concurrent calls of this kind; try again later"));
  }
  if (const int limit = LimitOfOne(kind); limit > 0) {
    int& of_one = of_one_[{kind, principal}];
    if (of_one >= limit) {
      return absl::ResourceExhaustedError(absl::StrCat(principal, " has ", of_one,
                                                       " calls in progress, the limit for one "
                                                       "principal; end some or try again "
                                                       "later"));
    }
    ++of_one;
  }
  ++taken;
  return absl::OkStatus();
}

void CallCapacity::Leave(CallKind kind, const std::string& principal) {
  const std::lock_guard lock(mutex_);
  --taken_[kind];
  const auto found = of_one_.find({kind, principal});
  if (found != of_one_.end() && --found->second == 0) of_one_.erase(found);
}

}  // namespace braid
