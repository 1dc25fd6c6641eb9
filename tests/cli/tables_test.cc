#include "cli/tables.h"

#include <gtest/gtest.h>

#include <sstream>

namespace braid {
namespace {

TEST(TablesTest, NumbersAlignRightAndTextLeft) {
  std::ostringstream out;
  PrintTable({{"NAME", "COUNT"}, {"a", "7"}, {"longer", "1,234"}}, out);
  EXPECT_EQ(out.str(),
            "NAME    COUNT\n"
            "a           7\n"
            "longer  1,234\n");
}

TEST(TablesTest, ThousandsAreSeparated) {
  EXPECT_EQ(WithThousands(7), "7");
  EXPECT_EQ(WithThousands(1234), "1,234");
  EXPECT_EQ(WithThousands(1234567890), "1,234,567,890");
  EXPECT_EQ(WithThousands(-1234), "-1,234");
  EXPECT_EQ(WithThousands(-123), "-123");
}

TEST(TablesTest, RunShowsTheHealthOfItsExperts) {
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
  EXPECT_NE(out.str().find("5.0 of 8 effective (least 2.5 in layer 3), 5.5 active, cosine 0.900\n"),
            std::string::npos)
      << out.str();
}

}  // namespace
}  // namespace braid
