#include "runs/run_state.h"

#include <gmock/gmock.h>

#include <set>
#include <utility>

namespace braid {
namespace run_state_test {

using Arrow = std::pair<v1::RunState, v1::RunState>;

// Every arrow of the picture in run_state.h, written out.
const std::set<Arrow> kArrows = {
    {v1::RUN_STATE_UNSPECIFIED, v1::RUN_QUEUED},
    {v1::RUN_STATE_UNSPECIFIED, v1::RUN_STARTING},
    {v1::RUN_QUEUED, v1::RUN_STARTING},
    {v1::RUN_QUEUED, v1::RUN_STOPPED},
    {v1::RUN_QUEUED, v1::RUN_FAILED},
    {v1::RUN_STARTING, v1::RUN_RUNNING},
    {v1::RUN_STARTING, v1::RUN_RESTARTING},
    {v1::RUN_STARTING, v1::RUN_QUEUED},
    {v1::RUN_STARTING, v1::RUN_SUCCEEDED},
    {v1::RUN_STARTING, v1::RUN_STOPPED},
    {v1::RUN_STARTING, v1::RUN_FAILED},
    {v1::RUN_RUNNING, v1::RUN_RESTARTING},
    {v1::RUN_RUNNING, v1::RUN_QUEUED},
    {v1::RUN_RUNNING, v1::RUN_SUCCEEDED},
    {v1::RUN_RUNNING, v1::RUN_STOPPED},
    {v1::RUN_RUNNING, v1::RUN_FAILED},
    {v1::RUN_RESTARTING, v1::RUN_STARTING},
    {v1::RUN_RESTARTING, v1::RUN_QUEUED},
    {v1::RUN_RESTARTING, v1::RUN_SUCCEEDED},
    {v1::RUN_RESTARTING, v1::RUN_STOPPED},
    {v1::RUN_RESTARTING, v1::RUN_FAILED},
    {v1::RUN_STOPPED, v1::RUN_QUEUED},
    {v1::RUN_STOPPED, v1::RUN_STARTING},
    {v1::RUN_FAILED, v1::RUN_QUEUED},
    {v1::RUN_FAILED, v1::RUN_STARTING},
};

TEST(RunStateTest, LegalTransitionsAreExactlyThoseOfTheDiagram) {
  for (int from = v1::RunState_MIN; from <= v1::RunState_MAX; ++from) {
    for (int to = v1::RunState_MIN; to <= v1::RunState_MAX; ++to) {
      const Arrow arrow{static_cast<v1::RunState>(from), static_cast<v1::RunState>(to)};
      EXPECT_EQ(IsLegalTransition(arrow.first, arrow.second), kArrows.contains(arrow))
          << v1::RunState_Name(arrow.first) << " -> " << v1::RunState_Name(arrow.second);
    }
  }
}

TEST(RunStateTest, EndedStatesMoveOnOnlyByAResume) {
  for (const auto& [from, to] : kArrows) {
    if (!HasEnded(from)) continue;
    EXPECT_TRUE(to == v1::RUN_QUEUED || to == v1::RUN_STARTING) << v1::RunState_Name(from);
  }
}

TEST(RunStateTest, EveryStateCanBeReachedAndEnds) {
  std::set<v1::RunState> reached = {v1::RUN_STATE_UNSPECIFIED};
  for (size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const auto& [from, to] : kArrows) {
      if (reached.contains(from)) reached.insert(to);
    }
  }
  EXPECT_EQ(reached.size(), static_cast<size_t>(v1::RunState_MAX - v1::RunState_MIN + 1));
  for (const v1::RunState state : reached) {
    if (HasEnded(state) || state == v1::RUN_STATE_UNSPECIFIED) continue;
    EXPECT_TRUE(IsLegalTransition(state, v1::RUN_FAILED)) << v1::RunState_Name(state);
    EXPECT_TRUE(IsLegalTransition(state, v1::RUN_STOPPED)) << v1::RunState_Name(state);
  }
}

}  // namespace run_state_test
}  // namespace braid
