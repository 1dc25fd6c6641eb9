#include "server/prometheus_call_metrics.h"

#include <gmock/gmock.h>
#include <prometheus/text_serializer.h>

namespace braid {
namespace prometheus_call_metrics_test {

using testing::HasSubstr;
using testing::Not;

constexpr char kGetJob[] = "/braid.v1.PipelineService/GetJob";

TEST(CallMetricsTest, CountsCallsByMethodAndCode) {
  CallMetrics metrics;
  for (int i = 0; i < 3; ++i) metrics.OnStart(kGetJob);
  metrics.OnEnd({.method = kGetJob, .seconds = 0.25}, true);
  metrics.OnEnd({.method = kGetJob, .code = absl::StatusCode::kNotFound, .seconds = 0.5}, true);
  metrics.OnEnd({.method = "/made.up/Method",
                 .code = absl::StatusCode::kUnauthenticated,
                 .refusal = Refusal::kBadToken},
                false);
  const std::string text = prometheus::TextSerializer().Serialize(metrics.Collect());
  const std::string job = std::string("method=\"") + kGetJob + "\"";
  for (const std::string& line :
       {"braid_server_calls_total{code=\"OK\"," + job + "} 1\n",
        "braid_server_calls_total{code=\"NOT_FOUND\"," + job + "} 1\n",
        std::string("braid_server_calls_total{code=\"UNAUTHENTICATED\",method=\"unknown\"} 1\n"),
        "braid_server_calls_in_progress{" + job + "} 1\n",
        std::string("braid_server_refusals_total{reason=\"bad_token\"} 1\n"),
        "braid_server_call_seconds_count{" + job + "} 2\n",
        "braid_server_call_seconds_sum{" + job + "} 0.75\n",
        "braid_server_call_seconds_bucket{" + job + ",le=\"0.1\"} 0\n",
        "braid_server_call_seconds_bucket{" + job + ",le=\"0.5\"} 2\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  // Unknown methods of callers are not used as labels.
  EXPECT_THAT(text, Not(HasSubstr("made.up")));
}

}  // namespace prometheus_call_metrics_test
}  // namespace braid
