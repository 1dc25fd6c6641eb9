#include "cli/training_options.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace training_options_test {

absl::StatusOr<v1::RunSpec> Parsed(std::vector<std::string> arguments) {
  CLI::App app;
  TrainingOptions options;
  options.AddTo(&app);
  std::ranges::reverse(arguments);
  app.parse(arguments);
  v1::RunSpec spec;
  const absl::Status status = options.Apply(&spec);
  if (!status.ok()) return status;
  return spec;
}

// Calls `check` with the word and the number of every value of an enum but its default one.
template <class Check>
void ForEachWord(const google::protobuf::EnumDescriptor& type, const Check& check) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() == 0) continue;
    check(FlagWord(std::string(type.value(i)->name())), type.value(i)->number());
  }
}

TEST(TrainingOptionsTest, EveryScheduleHasAWord) {
  ForEachWord(*v1::LearningRateSchedule_descriptor(), [](const std::string& word, int number) {
    ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, Parsed({"--schedule", word}));
    EXPECT_EQ(spec.optimizer().schedule(), number) << word;
  });
}

TEST(TrainingOptionsTest, EverySpikePolicyHasAWord) {
  ForEachWord(*v1::SpikePolicy_descriptor(), [](const std::string& word, int number) {
    ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, Parsed({"--on-spike", word}));
    EXPECT_EQ(spec.spikes().policy(), number) << word;
  });
}

TEST(TrainingOptionsTest, EveryOptimizerHasAWord) {
  ForEachWord(*v1::OptimizerAlgorithm_descriptor(), [](const std::string& word, int number) {
    ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, Parsed({"--optimizer", word}));
    EXPECT_EQ(spec.optimizer().algorithm(), number) << word;
  });
}

TEST(TrainingOptionsTest, LengthsHaveTheirUnits) {
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec,
                       Parsed({"--length", "1.5epochs", "--warmup", "500", "--decay", "0.2",
                               "--validate-every", "1e6tokens", "--patience", "3"}));
  EXPECT_EQ(spec.length().epochs(), 1.5);
  EXPECT_EQ(spec.optimizer().warmup().steps(), 500);
  EXPECT_EQ(spec.optimizer().decay().fraction(), 0.2);
  EXPECT_EQ(spec.validation().every().tokens(), 1e6);
  EXPECT_EQ(spec.validation().patience(), 3);
}

TEST(TrainingOptionsTest, RefusesUnknownWordsAndLengths) {
  for (const char* flag : {"--schedule", "--on-spike"}) {
    EXPECT_THROW(Parsed({flag, "unspecified"}).IgnoreError(), CLI::ParseError) << flag;
  }
  for (const char* flag : {"--length", "--warmup", "--decay", "--validate-every"}) {
    EXPECT_FAILS(Parsed({flag, "5miles"}).status(), absl::StatusCode::kInvalidArgument, flag);
  }
}

}  // namespace training_options_test
}  // namespace braid
