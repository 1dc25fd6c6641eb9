#include "runs/training_length.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace braid {
namespace training_length_test {

using testing::HasSubstr;

constexpr StepSize kSize{.global_batch_size = 4, .sequence_length = 32, .num_instances = 37};

int64_t Steps(const std::string& text, int64_t num_steps = 1000) {
  const auto parsed = ParseTrainingLength("--decay", text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const auto resolved = ResolveLength("decay", *parsed, kSize);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  const auto again = ResolveLength("decay", *resolved, kSize);
  EXPECT_EQ(again->DebugString(), resolved->DebugString()) << text;
  return StepsOf(*resolved, num_steps);
}

std::string ErrorOf(const std::string& text) {
  return std::string(ParseTrainingLength("--decay", text).status().message());
}

TEST(TrainingLengthTest, EveryUnitBecomesWholeSteps) {
  EXPECT_EQ(Steps("0.2"), 200);
  EXPECT_EQ(Steps("0.2005"), 201);
  EXPECT_EQ(Steps("0"), 0);
  EXPECT_EQ(Steps("500"), 500);
  EXPECT_EQ(Steps("500steps"), 500);
  EXPECT_EQ(Steps("1.5e3steps", 2000), 1500);
  EXPECT_EQ(Steps("1"), 1);
  EXPECT_EQ(Steps("1280tokens"), 10);
  EXPECT_EQ(Steps("1281tokens"), 11);
  EXPECT_EQ(Steps("1e4tokens"), 79);  // 78.1 steps of 128 tokens
  EXPECT_EQ(Steps("1epochs"), 10);    // 37 instances in batches of 4
  EXPECT_EQ(Steps("2epochs"), 19);
  EXPECT_EQ(Steps("0.5epochs"), 5);
}

TEST(TrainingLengthTest, BadTextNamesTheOptionAndWhatIsExpected) {
  for (const char* text :
       {"", "fast", "-1", "1.5", "1.0", "nan", "inf", "1e20", "5parsecs", "0.1.2"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("--decay: got \"")) << text;
    EXPECT_THAT(ErrorOf(text), HasSubstr("1.5epochs")) << text;
  }
}

TEST(TrainingLengthTest, ExactlyOneUnitInRange) {
  const auto error = [](const v1::TrainingLength& length) {
    return std::string(ResolveLength("optimizer.decay", length, kSize).status().message());
  };
  v1::TrainingLength length;
  EXPECT_EQ(error(length),
            "optimizer.decay: got 0 units, expected exactly one of fraction, steps, tokens and "
            "epochs");
  length.set_steps(4);
  length.set_epochs(2);
  EXPECT_THAT(error(length), HasSubstr("got 2 units"));
  length.clear_steps();
  for (const double bad : {-1.0, 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    length.set_epochs(bad);
    EXPECT_THAT(error(length), HasSubstr("at least 0 and at most 2^32 steps"));
  }
  // With a batch that grows over its first steps, too.
  StepSize growing = kSize;
  growing.growth = {.full = 4, .first = 1, .unit = 1, .growth_steps = 10};
  for (const double bad : {-1.0, 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    length.set_epochs(bad);
    EXPECT_THAT(std::string(ResolveLength("warmup", length, growing).status().message()),
                HasSubstr("warmup: got " + absl::StrCat(bad)));
  }
  length.set_epochs(1);
  // 1 + 1 + 1 + 1 + 2 + 2 + 2 + 3 + 3 + 3 instances, and five batches of 4 for the rest of the 37.
  EXPECT_EQ(ResolveLength("warmup", length, growing)->steps(), 15);
  length.Clear();
  for (const double bad : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    length.set_fraction(bad);
    EXPECT_THAT(error(length), HasSubstr("at least 0 and below 1"));
  }
}

}  // namespace training_length_test
}  // namespace braid
