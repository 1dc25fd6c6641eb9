#include "proto/config_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/v1/corpus.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {
namespace config_text_test {

using ::testing::HasSubstr;

TEST(ConfigTextTest, SetsNestedScalarsEnumsAndStrings) {
  v1::RunSpec spec;
  ASSERT_TRUE(SetField(&spec, "model.routing.num_experts=8").ok());
  ASSERT_TRUE(SetField(&spec, "model.routing.router=CAUSAL_SEGMENT").ok());
  ASSERT_TRUE(SetField(&spec, "optimizer.learning_rate=6e-3").ok());
  ASSERT_TRUE(SetField(&spec, "name=a \"quoted\" = name").ok());
  EXPECT_EQ(spec.model().routing().num_experts(), 8);
  EXPECT_EQ(spec.model().routing().router(), v1::CAUSAL_SEGMENT);
  EXPECT_DOUBLE_EQ(spec.optimizer().learning_rate(), 6e-3);
  EXPECT_EQ(spec.name(), "a \"quoted\" = name");
}

TEST(ConfigTextTest, LaterValueReplacesAndRepeatedFieldsGrow) {
  v1::CorpusSpec spec;
  ASSERT_TRUE(SetField(&spec, "seed=1").ok());
  ASSERT_TRUE(SetField(&spec, "seed=2").ok());
  ASSERT_TRUE(SetField(&spec, "paths=a").ok());
  ASSERT_TRUE(SetField(&spec, "paths=b").ok());
  EXPECT_EQ(spec.seed(), 2);
  EXPECT_EQ(spec.paths_size(), 2);
}

TEST(ConfigTextTest, TheValuesOfAListReplaceEarlierOnes) {
  v1::RunSpec spec;
  spec.mutable_model()->mutable_routing()->add_moe_layers(3);
  spec.add_datasets()->set_dataset("a");
  const std::string assignments[] = {"model.routing.moe_layers=1", "datasets={dataset: \"b\"}",
                                     "model.routing.moe_layers=2", "model.d_model=16"};
  ASSERT_TRUE(SetFields(&spec, assignments).ok());
  EXPECT_THAT(spec.model().routing().moe_layers(), testing::ElementsAre(1, 2));
  EXPECT_EQ(spec.datasets_size(), 1);
  EXPECT_EQ(spec.datasets(0).dataset(), "b");
  const std::string unknown[] = {"model.routng.moe_layers=1"};
  EXPECT_FALSE(SetFields(&spec, unknown).ok());
}

TEST(ConfigTextTest, GroupsOfSettingsAreTextInBraces) {
  v1::RunSpec spec;
  ASSERT_TRUE(SetField(&spec, "datasets=[{dataset: \"a\", share: .8}, {dataset: \"b\"}]").ok());
  ASSERT_TRUE(SetField(&spec, "datasets={dataset: \"c\", epochs: 2}").ok());
  ASSERT_EQ(spec.datasets_size(), 3);
  EXPECT_EQ(spec.datasets(0).share(), 0.8);
  EXPECT_EQ(spec.datasets(2).epochs(), 2);
  ASSERT_TRUE(SetField(&spec, "optimizer.decay={steps: 100}").ok());
  EXPECT_EQ(spec.optimizer().decay().steps(), 100);
  EXPECT_THAT(std::string(SetField(&spec, "datasets={dataset: \"c\"} seed: 9").message()),
              HasSubstr("expected one group of settings"));
  EXPECT_THAT(std::string(SetField(&spec, "datasets={datset: \"c\"}").message()),
              HasSubstr("did you mean \"dataset\""));
  EXPECT_EQ(spec.datasets_size(), 3);
}

// Only fields of the message with the unknown key are suggested: SharePhase has a field "shares",
// MixtureDataset does not.
TEST(ConfigTextTest, ErrorsInAGroupNameItsMessage) {
  v1::RunSpec spec;
  EXPECT_THAT(std::string(SetField(&spec, "datasets=[{dataset: \"a\", shares: .5}]").message()),
              HasSubstr("unknown configuration key \"shares\" in MixtureDataset; did you mean "
                        "\"share\"?"));
  EXPECT_THAT(std::string(SetField(&spec, "model={layers: 3}").message()),
              HasSubstr("unknown configuration key \"layers\" in ModelConfig; known: preset, "
                        "num_layers, "));
  EXPECT_THAT(std::string(SetField(&spec, "optimizer={schedule: COSIN}").message()),
              HasSubstr("schedule: unknown value \"COSIN\"; did you mean \"COSINE\"?"));
}

TEST(ConfigTextTest, UnknownKeyNamesTheNearestKnownOne) {
  v1::RunSpec spec;
  const absl::Status status = SetField(&spec, "model.routing.num_expert=8");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean \"num_experts\""));
}

TEST(ConfigTextTest, UnknownEnumValueNamesTheNearestKnownOne) {
  v1::CorpusSpec spec;
  EXPECT_THAT(std::string(SetField(&spec, "order=SIMILARTY").message()),
              HasSubstr("did you mean \"SIMILARITY\""));
}

TEST(ConfigTextTest, WrongTypeAndShapeAreErrors) {
  v1::RunSpec spec;
  EXPECT_THAT(std::string(SetField(&spec, "num_steps=many").message()),
              HasSubstr("expected an integer"));
  EXPECT_THAT(std::string(SetField(&spec, "num_steps=4 seed: 9").message()),
              HasSubstr("expected an integer"));
  EXPECT_THAT(std::string(SetField(&spec, "model=8").message()), HasSubstr("group of settings"));
  EXPECT_THAT(std::string(SetField(&spec, "seed.x=8").message()), HasSubstr("single value"));
  for (const char* list : {"launch.hosts.host=a", "launch.hosts=a"}) {
    EXPECT_THAT(std::string(SetField(&spec, list).message()),
                HasSubstr("\"hosts\" is a list of groups of settings; add one with "
                          "launch.hosts={name: value}"));
  }
  EXPECT_THAT(std::string(SetField(&spec, "num_steps").message()), HasSubstr("PATH=VALUE"));
}

TEST(ConfigTextTest, ParseErrorsNameFileLineAndNearestKey) {
  v1::RunSpec spec;
  const absl::Status status =
      ParseConfig("num_steps: 4\nmodel { d_modl: 8 }", "my.textproto", &spec);
  EXPECT_THAT(std::string(status.message()), HasSubstr("my.textproto:2:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean \"d_model\""));
}

TEST(ConfigTextTest, AFieldThatIsSetTwiceIsAnError) {
  v1::RunSpec spec;
  spec.set_num_steps(9);
  const absl::Status status =
      ParseConfig("num_steps: 4\nmodel { d_model: 64 d_model: 32 }", "my.textproto", &spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("my.textproto:2:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("got d_model twice"));
  EXPECT_EQ(spec.num_steps(), 9) << "nothing was merged";
  // Repeated fields grow, and a file replaces what was set before.
  ASSERT_TRUE(ParseConfig("num_steps: 0 datasets { dataset: \"a\" } datasets { dataset: \"b\" }",
                          "my.textproto", &spec)
                  .ok());
  EXPECT_EQ(spec.datasets_size(), 2);
  EXPECT_EQ(spec.num_steps(), 0);
}

}  // namespace config_text_test
}  // namespace braid
