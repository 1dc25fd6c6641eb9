#include "reproduce/claims_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/reproduce/fabricated_reproduction.h"

namespace braid {
namespace claims_table_test {

using ::testing::HasSubstr;

ClaimPart JudgedPart() {
  return {.name = "held-out",
          .unit = kLossUnit,
          .rule = VerdictRule{EffectRule::kPositive, 0.01, 0.02},
          .estimate = EffectEstimate{.effect = 0.1056,
                                     .low = 0.09,
                                     .high = 0.12,
                                     .has_interval = true,
                                     .by_seed = {0.1, 0.11},
                                     .num_units = 30},
          .verdict = Verdict::kShown};
}

Claim MeasuredClaim() {
  const ClaimPart told{.name = "16 experts", .unit = kLossUnit, .missing = "no run"};
  return {.number = 1,
          .name = "MoE below dense",
          .parts = {JudgedPart(), told},
          .verdict = Verdict::kShown};
}

std::string Printed(const std::vector<Claim>& claims) {
  std::ostringstream out;
  PrintClaims(claims, out);
  return out.str();
}

TEST(ClaimsTableTest, ShowsJudgedEffects) {
  EXPECT_EQ(Printed({MeasuredClaim()}),
            "Effects with their intervals, in nats per token unless another unit is given.\n"
            "\n"
            " 1. MoE below dense: SHOWN\n"
            "    shown         0.106 [0.090, 0.120]     held-out\n");
}

TEST(ClaimsTableTest, EffectsOfDivergedRunsStayInTheirColumn) {
  Claim claim = MeasuredClaim();
  claim.parts[0].estimate = EffectEstimate{.effect = std::nan(""), .by_seed = {0.1, std::nan("")}};
  claim.parts[0].verdict = Verdict::kInconclusive;
  EXPECT_THAT(Printed({claim}),
              HasSubstr("    inconclusive  \xE2\x80\x93 (no interval)          held-out\n"));
}

TEST(ClaimsTableTest, ExplainsOneSeed) {
  Claim claim = MeasuredClaim();
  claim.parts[0].estimate->by_seed = {0.1};
  ClaimPart bare = claim.parts[0];
  bare.name = "share";
  bare.unit = "of the experts";
  bare.estimate->has_interval = false;
  bare.verdict = Verdict::kInconclusive;
  Claim wanting = claim;
  wanting.verdict = Verdict::kInconclusive;
  wanting.parts = {bare};
  claim.cautions = {"Mind this."};
  EXPECT_EQ(Printed({claim, wanting}),
            "Effects with their intervals, in nats per token unless another unit is given.\n"
            "One seed: intervals do not include the variation between seeds. Losses are\n"
            "judged with intervals that are widened by \u00B10.02; effects without an interval\n"
            "cannot be judged.\n"
            "\n"
            " 1. MoE below dense: SHOWN\n"
            "    shown         0.106 [0.090, 0.120]     held-out\n"
            "    Mind this.\n"
            " 1. MoE below dense: INCONCLUSIVE (needs a second seed)\n"
            "    inconclusive  0.106 (no interval)      share (of the experts)\n");
}

TEST(ClaimsTableTest, NamesEveryAllowanceOfOneSeed) {
  Claim claim = MeasuredClaim();
  claim.parts[0].estimate->by_seed = {0.1};
  claim.parts.push_back(claim.parts[0]);
  claim.parts.back().rule->single_seed_allowance = 0.01;
  EXPECT_THAT(Printed({claim}), HasSubstr("widened by \u00B10.01 or \u00B10.02; effects"));
}

TEST(ClaimsTableTest, ExplainsWhyAnEffectIsMissing) {
  Claim claim = MeasuredClaim();
  claim.verdict = claim.parts[0].verdict = Verdict::kNotMeasured;
  claim.parts[0].estimate.reset();
  claim.parts[0].missing = "no run of prefix";
  EXPECT_THAT(Printed({claim}), HasSubstr(" 1. MoE below dense: NOT MEASURED\n"
                                          "    not measured                           "
                                          "held-out (no run of prefix)\n"));
}

TEST(ClaimsTableTest, FitsIntoEightyColumns) {
  for (const int num_seeds : {1, 3}) {
    const Reproduction reproduction = FabricateReproduction({.num_seeds = num_seeds});
    const std::vector<std::string> lines = absl::StrSplit(Printed(reproduction.claims), '\n');
    for (const std::string& line : lines) {
      const auto columns = std::ranges::count_if(
          line, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
      EXPECT_LE(columns, 80) << line;
    }
  }
}

}  // namespace claims_table_test
}  // namespace braid
