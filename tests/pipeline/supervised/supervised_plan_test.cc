#include "pipeline/supervised/supervised_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/packed_dataset.h"
#include "formats/task_shares.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/supervised/supervised_fixture.h"

namespace braid {
namespace supervised_plan_test {

using absl::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

class SupervisedPlanTest : public SupervisedFixture {};

TEST_F(SupervisedPlanTest, HoldsEqualExamplesOutTogether) {
  RecordSet records = Records(20);
  const std::vector<SupervisedRecord> once = records.records;
  records.records.insert(records.records.end(), once.begin(), once.end());
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, Settings()));
  EXPECT_THAT(plan.validation.examples, SizeIs(4));
  EXPECT_EQ(plan.counts.num_duplicates, 0);
}

TEST_F(SupervisedPlanTest, CountsDuplicatesOfValidationFiles) {
  const RecordSet training = Records(10), validation = Records(3, "valid.jsonl");
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(training, Settings(), &validation));
  EXPECT_THAT(plan.training.examples, SizeIs(10));
  EXPECT_EQ(plan.counts.num_duplicates, 3);
  SupervisedSettings strict = Settings();
  strict.strict = true;
  EXPECT_FAILS(Plan(training, strict, &validation).status(), StatusCode::kInvalidArgument,
               "data.jsonl:1: got an example that is also a validation example");
}

TEST_F(SupervisedPlanTest, CountsWhatIsRejectedOrCut) {
  RecordSet records = Records(10);
  records.records[2].turns[0].text += std::string(300, 'q');  // a prompt of many tokens
  records.records[4].turns[1].text = std::string(300, 'z');   // an answer of many tokens
  records.records[5].turns[0].text += " </s>";
  records.rejected.push_back({"data.jsonl:77", "empty answer", ""});
  SupervisedSettings settings = Settings();
  settings.validation_share = 0;
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, settings));
  EXPECT_EQ(plan.counts.num_records, 11);
  EXPECT_EQ(plan.counts.num_cut, 1);
  EXPECT_EQ(plan.counts.num_control_texts, 1);
  EXPECT_EQ(CountsText(plan.counts.rejected), "1 answer longer than the sequence, 1 empty answer");
  EXPECT_THAT(plan.rejected.back().detail,
              testing::MatchesRegex("got an answer of [0-9]+ tokens, expected at most the sequence "
                                    "length 128"));
  EXPECT_THAT(plan.validation.examples, IsEmpty());
  const std::filesystem::path directory = Write(plan, records, settings);
  EXPECT_OK(VerifyDataset(directory));
  const std::string rejects = GetFile(directory / "rejects.jsonl");
  EXPECT_EQ(std::ranges::count(rejects, '\n'), 2);
  EXPECT_EQ(nlohmann::json::parse(GetFile(directory / kSupervisedReportName))["num_cut"], 1);
  settings.strict = true;
  EXPECT_FAILS(Plan(records, settings).status(), StatusCode::kInvalidArgument,
               "data.jsonl:77: empty answer, which --strict refuses");
  records.rejected.clear();
  records.records.erase(records.records.begin() + 4);
  EXPECT_FAILS(Plan(records, settings).status(), StatusCode::kInvalidArgument, "data.jsonl:3",
               "tokens too many");
}

TEST_F(SupervisedPlanTest, LeavesAnExampleToTrainOn) {
  SupervisedSettings settings = Settings();
  settings.validation_share = .9;
  RecordSet equal = Records(1);
  equal.records.resize(5, equal.records[0]);
  const auto expect = [&](const RecordSet& records, size_t trained, size_t validated) {
    ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, settings));
    EXPECT_THAT(plan.training.examples, SizeIs(trained));
    EXPECT_THAT(plan.validation.examples, SizeIs(validated));
    EXPECT_OK(VerifyDataset(Write(plan, records, settings)));
  };
  expect(Records(2), 1, 1);
  // A share that holds nothing out is refused, unless it is 0.
  for (const RecordSet& records : {Records(1), equal}) {
    EXPECT_FAILS(Plan(records, settings), StatusCode::kInvalidArgument,
                 "--validation: got a share of 0.9 of one example", "--validation 0");
  }
  settings.validation_share = 0;
  expect(Records(1), 1, 0);
  expect(equal, 5, 0);
}

TEST_F(SupervisedPlanTest, TextsThatATaskIsEvaluatedOnAreCounted) {
  RecordSet records = Records(10);
  records.evaluated = {"data.jsonl:4", "data.jsonl:7"};
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, Settings()));
  EXPECT_EQ(plan.counts.num_evaluated, 2);
  SupervisedSettings strict = Settings();
  strict.strict = true;
  EXPECT_FAILS(Plan(records, strict), StatusCode::kInvalidArgument,
               "data.jsonl:4: got the text of an example that the task is evaluated on");
}

TEST_F(SupervisedPlanTest, RefusesDataThatLeaveNothing) {
  RecordSet none;
  none.rejected.push_back({"data.jsonl:1", "empty answer", ""});
  EXPECT_FAILS(Plan(none, Settings()).status(), StatusCode::kInvalidArgument,
               "got no example to train on from 1 record, expected at least one", "1 empty answer");
  RecordSet light = Records(3);
  light.sources[0].weight = .001;
  EXPECT_FAILS(Plan(light, Settings()).status(), StatusCode::kInvalidArgument,
               "from 3 records, with weight 0.001 for data.jsonl, expected at least one");
  EXPECT_FAILS(Plan(Records(3), Settings(), &none).status(), StatusCode::kInvalidArgument,
               "got no example to validate on");
}

TEST_F(SupervisedPlanTest, RefusesLabelsThatCannotBePredicted) {
  SupervisedSettings settings = Settings();
  settings.encoding.labels = true;
  settings.labels.emplace();
  EXPECT_FAILS(Plan(Labeled({"yes", "yes"}), settings), StatusCode::kInvalidArgument,
               "--label-head: got 1 different answer(s), such as \"yes\"");
  const RecordSet other = Labeled({"yes", "maybe"}, "valid.jsonl");
  EXPECT_FAILS(Plan(Labeled({"yes", "no"}), settings, &other), StatusCode::kInvalidArgument,
               "valid.jsonl:2: label: got \"maybe\", expected one of the classes that the training "
               "data has: no, yes");
  // The detail of a label that is missing says nothing about tokens.
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan blank,
                       Plan(Labeled({"yes", "no", " ", "no"}), settings));
  ASSERT_THAT(blank.rejected, SizeIs(1));
  EXPECT_EQ(blank.rejected[0].reason, "empty label");
  EXPECT_EQ(blank.rejected[0].detail, "");
  settings.labels->regression = true;
  for (const std::string text : {"nan", "inf", "1e99", "one", "1,5"}) {
    EXPECT_FAILS(Plan(Labeled({"1", text}), settings), StatusCode::kInvalidArgument,
                 "data.jsonl:2: label: got \"" + text + "\", expected a finite number");
  }
  settings.validation_share = 0;
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(Labeled({"1", "-2.5e-1"}), settings));
  EXPECT_THAT(LabelNumbers(*plan.labels, plan.training.examples),
              testing::UnorderedElementsAre(1, -.25f));
}

}  // namespace supervised_plan_test
}  // namespace braid
