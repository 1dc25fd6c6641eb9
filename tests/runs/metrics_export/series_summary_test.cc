#include "runs/metrics_export/series_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/runs/metrics_export/random_metrics.h"

namespace braid {
namespace series_summary_test {

v1::MetricSeries Find(const v1::MetricsSummary& summary, const std::string& name) {
  for (const v1::MetricSeries& series : summary.series()) {
    if (series.name() == name) return series;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(SeriesSummaryTest, AgreesWithASummaryOfAllStoredValues) {
  std::mt19937_64 random(3);
  SeriesSummary summary;
  std::map<std::string, std::vector<double>> all;
  for (int step = 1; step <= 200; ++step) {
    const v1::StepMetrics metrics = RandomMetrics(step, &random);
    summary.Add(metrics);
    for (const SeriesValue& value : ValuesOf(metrics)) {
      all[ColumnOf(value.key)].push_back(value.value);
    }
  }
  const v1::MetricsSummary result = summary.Summary();
  EXPECT_EQ(result.num_steps(), 200);
  EXPECT_EQ(result.series_size(), std::ssize(all));
  for (const v1::MetricSeries& series : result.series()) {
    const std::vector<double>& values = all.at(series.name());
    EXPECT_EQ(series.num_steps(), std::ssize(values)) << series.name();
    EXPECT_EQ(series.last(), values.back()) << series.name();
    EXPECT_EQ(series.min(), *std::ranges::min_element(values)) << series.name();
    EXPECT_EQ(series.max(), *std::ranges::max_element(values)) << series.name();
  }
}

TEST(SeriesSummaryTest, LeastAndGreatestAreOfFiniteValues) {
  SeriesSummary summary;
  for (const double loss : {std::nan(""), 3.0, 2.0, std::numeric_limits<double>::infinity()}) {
    v1::StepMetrics metrics;
    metrics.set_loss(loss);
    metrics.set_gradient_norm(std::nan(""));
    summary.Add(metrics);
  }
  const v1::MetricSeries loss = Find(summary.Summary(), "loss");
  EXPECT_EQ(loss.num_steps(), 4);
  EXPECT_EQ(loss.min(), 2);
  EXPECT_EQ(loss.max(), 3);
  EXPECT_TRUE(std::isinf(loss.last()));
  EXPECT_TRUE(std::isnan(Find(summary.Summary(), "gradient_norm").max()));
}

TEST(SeriesSummaryTest, StandsInTheOrderOfTheTable) {
  std::mt19937_64 random(4);
  SeriesSummary summary;
  for (int step = 1; step <= 20; ++step) summary.Add(RandomMetrics(step, &random));
  const v1::MetricsSummary result = summary.Summary();
  for (size_t i = 0; i < AllStepSeries().size(); ++i) {
    EXPECT_EQ(result.series(static_cast<int>(i)).name(), AllStepSeries()[i].column);
  }
  EXPECT_EQ(result.series(static_cast<int>(AllStepSeries().size())).name(),
            "routing.layer_1.entropy");
}

}  // namespace series_summary_test
}  // namespace braid
