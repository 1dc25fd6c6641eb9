#include "client/terminal/tables.h"

#include <gtest/gtest.h>

#include <sstream>

namespace braid {
namespace tables_test {

TEST(TablesTest, AlignsNumbersRightAndTextLeft) {
  std::ostringstream out;
  PrintTable({{"NAME", "COUNT"}, {"a", "7"}, {"longer", "1,234"}}, out);
  EXPECT_EQ(out.str(),
            "NAME    COUNT\n"
            "a           7\n"
            "longer  1,234\n");
}

TEST(TablesTest, SeparatesThousands) {
  EXPECT_EQ(WithThousands(7), "7");
  EXPECT_EQ(WithThousands(1234), "1,234");
  EXPECT_EQ(WithThousands(1234567890), "1,234,567,890");
  EXPECT_EQ(WithThousands(-1234), "-1,234");
  EXPECT_EQ(WithThousands(-123), "-123");
}

TEST(TablesTest, ShowsExpertStatisticsOfARun) {
  v1::Run run;
  std::ostringstream dense;
  run.mutable_latest()->set_step(7);
  PrintRun(run, dense);
  EXPECT_EQ(dense.str().find("experts"), std::string::npos);
  for (int layer : {1, 3}) {
    v1::LayerRouting* routing = run.mutable_latest()->add_routing();
    routing->set_layer(layer);
    routing->set_effective_experts(layer == 1 ? 7.5 : 2.5);
    routing->set_active_experts(layer == 1 ? 8 : 3);
    routing->set_expert_cosine(0.9);
    for (int e = 0; e < 8; ++e) routing->add_mean_weights(0.125);
  }
  std::ostringstream out;
  PrintRun(run, out);
  EXPECT_NE(out.str().find("5.0 of 8 effective (2.5 in layer 3), 5.5 active, cosine 0.900\n"),
            std::string::npos)
      << out.str();
}

TEST(TablesTest, ShowsThroughputOfARun) {
  v1::Run run;
  run.mutable_latest()->set_tokens_per_second(12000);
  std::ostringstream plain;
  PrintRun(run, plain);
  EXPECT_EQ(plain.str().find("GFLOP"), std::string::npos);
  run.mutable_latest()->set_gflops(85.07);
  run.mutable_latest()->set_model_flops_utilization(0.637);
  std::ostringstream measured;
  PrintRun(run, measured);
  EXPECT_NE(measured.str().find("tokens/s, 85.1 GFLOP/s, 64 % of the peak"), std::string::npos)
      << measured.str();
}

TEST(TablesTest, ShowsForecastsForBothShardings) {
  v1::Forecast forecast;
  forecast.mutable_request()->set_world_size(4);
  forecast.set_weight_bytes(int64_t{3} << 30);
  forecast.set_moment_bytes(int64_t{6} << 30);
  forecast.set_moment_bytes_zero_1(int64_t{3} << 29);
  forecast.set_all_reduce_bytes(4.5e9);
  forecast.set_step_flops(2e12);
  std::ostringstream out;
  PrintForecast(forecast, out);
  for (const char* part : {"PER RANK (4 RANKS)", "3.00 GiB", "6.00 GiB", "1.50 GiB", "4.500 GB",
                           "2e+12 FLOPs per rank", "--gflops"}) {
    EXPECT_NE(out.str().find(part), std::string::npos) << part << " in\n" << out.str();
  }
  forecast.set_step_seconds(12.25);
  PrintForecast(forecast, out);
  EXPECT_NE(out.str().find("step 12.250 s"), std::string::npos);
}

}  // namespace tables_test
}  // namespace braid
