#include "client/terminal/metrics_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>

namespace braid {
namespace metrics_table_test {

void Add(const std::string& name, double last, double min, double max,
         v1::MetricsSummary* summary) {
  v1::MetricSeries* series = summary->add_series();
  series->set_name(name);
  series->set_num_steps(480);
  series->set_last(last);
  series->set_min(min);
  series->set_max(max);
}

TEST(MetricsTableTest, PrintsOneRowPerSeries) {
  v1::MetricsSummary summary;
  summary.set_run("run-000001-toy");
  summary.set_num_steps(1480);
  Add("loss", 4.373135, 4.21, 8.2185, &summary);
  Add("num_tokens", 983040, 2048, 983040, &summary);
  Add("routing.layer_0.mean_weights.0", 0.5, 0.25, 0.75, &summary);
  Add("routing.layer_0.load.0", 0.5, 0.25, 0.75, &summary);
  std::ostringstream out;
  PrintMetricsSummary(summary, out);
  EXPECT_EQ(out.str(),
            "run-000001-toy, 1,480 steps\n"
            "SERIES      STEPS    LAST   MIN     MAX\n"
            "loss          480  4.3731  4.21  8.2185\n"
            "num_tokens    480  983040  2048  983040\n"
            "not shown: 2 series of single experts (see --json, --csv FILE)\n");
}

TEST(MetricsTableTest, StaysWithin80Columns) {
  v1::MetricsSummary summary;
  summary.set_run(std::string(100, 'x') + "\n\x1b");
  summary.set_num_steps(1000000);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Add("routing.layer_99.effective_experts", -1.23456e-105, -1.23456e-105, 1.23456e+105, &summary);
  Add("gradient_norm", nan, nan, std::numeric_limits<double>::infinity(), &summary);
  std::ostringstream out;
  PrintMetricsSummary(summary, out);
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_EQ(out.str().find('\x1b'), std::string::npos);
}

TEST(MetricsTableTest, ReportsARunWithoutSteps) {
  v1::MetricsSummary summary;
  summary.set_run("run-000001");
  std::ostringstream out;
  PrintMetricsSummary(summary, out);
  EXPECT_EQ(out.str(), "run-000001, 0 steps\nno step is complete yet\n");
}

}  // namespace metrics_table_test
}  // namespace braid
