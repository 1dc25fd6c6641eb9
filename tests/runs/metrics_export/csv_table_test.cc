#include "runs/metrics_export/csv_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/runs/metrics_export/random_metrics.h"

namespace braid {
namespace csv_table_test {

TEST(CsvNumberTest, ReadsBackAsTheSameDouble) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    const std::string text = CsvNumber(value);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
  }
}

TEST(CsvNumberTest, IntegersHaveNoExponent) {
  EXPECT_EQ(CsvNumber(0), "0");
  EXPECT_EQ(CsvNumber(1000000), "1000000");
  EXPECT_EQ(CsvNumber(-9007199254740992), "-9007199254740992");
  EXPECT_EQ(CsvNumber(0.1), "0.1");
}

TEST(CsvNumberTest, NamesWhatIsNotFinite) {
  EXPECT_EQ(CsvNumber(std::nan("")), "nan");
  EXPECT_EQ(CsvNumber(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(CsvNumber(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(CsvTableTest, LayersStandInOrderWhateverCameFirst) {
  CsvTable table;
  v1::StepMetrics one, two;
  one.add_routing()->set_layer(2);
  two.add_routing()->set_layer(1);
  two.mutable_routing(0)->add_mean_weights(0.5);
  two.mutable_routing(0)->add_load(0.25);
  table.Add(one);
  table.Add(two);
  const std::string header = table.Header();
  EXPECT_EQ(header.substr(header.find("routing")),
            "routing.layer_1.entropy,routing.layer_1.effective_experts,"
            "routing.layer_1.active_experts,routing.layer_1.expert_cosine,"
            "routing.layer_1.busiest_over_mean,routing.layer_1.starved_experts,"
            "routing.layer_1.load_entropy,routing.layer_1.mean_weights.0,"
            "routing.layer_1.load.0,routing.layer_2.entropy,"
            "routing.layer_2.effective_experts,routing.layer_2.active_experts,"
            "routing.layer_2.expert_cosine,routing.layer_2.busiest_over_mean,"
            "routing.layer_2.starved_experts,routing.layer_2.load_entropy\r\n");
}

TEST(CsvTableTest, MissingValuesAreEmptyCells) {
  CsvTable table;
  v1::StepMetrics with, without;
  with.set_step(1);
  with.set_loss(2.5);
  with.add_routing()->set_entropy(0.25);
  without.set_step(2);
  without.set_loss(std::nan(""));
  table.Add(with);
  table.Header();
  EXPECT_EQ(table.Row(with)->substr(0, 8), "1,,2.5,,");
  EXPECT_TRUE(table.Row(with)->ends_with(",0.25,0,0,0,,,\r\n"));
  EXPECT_EQ(table.Row(without)->substr(0, 8), "2,,nan,,");
  EXPECT_TRUE(table.Row(without)->ends_with(",,,,\r\n"));
}

TEST(CsvTableTest, LayersThatWereNotAddedAreErrors) {
  CsvTable table;
  v1::StepMetrics added, layer, expert;
  added.add_routing()->add_mean_weights(1);
  layer.add_routing()->set_layer(7);
  expert.add_routing()->add_mean_weights(1);
  expert.mutable_routing(0)->add_mean_weights(1);
  table.Add(added);
  table.Header();
  EXPECT_TRUE(table.Row(added).ok());
  EXPECT_EQ(table.Row(layer).status().message(), "routing.layer_7.entropy has no column");
  EXPECT_EQ(table.Row(expert).status().message(), "routing.layer_0.mean_weights.1 has no column");
}

}  // namespace csv_table_test
}  // namespace braid
