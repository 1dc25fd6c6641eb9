#include "control/supervision/attempt_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace attempt_end_test {

v1::RunIncident Incident(int attempt, const std::string& cause) {
  v1::RunIncident incident;
  incident.set_attempt(attempt);
  incident.set_step(6);
  incident.set_cause(cause);
  return incident;
}

TEST(DescribeFailuresTest, PrintsACauseOfSeveralAttemptsOnce) {
  google::protobuf::RepeatedPtrField<v1::RunIncident> earlier;
  *earlier.Add() = Incident(1, "cannot write step-5.3584b25e.tmp/rank-00001: No space left\nlog");
  *earlier.Add() = Incident(2, "loss is NaN at step 3");
  *earlier.Add() = Incident(3, "cannot write step-5.d4c001b2.tmp/rank-00002: No space left");
  const v1::RunIncident last =
      Incident(4, "cannot write step-5.0414e264.tmp/rank-00001: No space left");
  EXPECT_EQ(DescribeFailures(earlier, last, 3),
            "cannot write step-5.0414e264.tmp/rank-00001: No space left\n"
            "giving up: 3 restarts from step 0 without a new checkpoint; attempts 1, 3 ended in "
            "the same way:\n  attempt 2, step 6: loss is NaN at step 3");
  EXPECT_EQ(DescribeFailures({}, last, 3), last.cause());
}

}  // namespace attempt_end_test
}  // namespace braid
