#include "cli/task_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "evaluation/tasks/task_spec.h"
#include "evaluation/tasks/training_share.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace task_records_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(TaskRecordsTest, ATaskGivesItsPromptsAndRightAnswers) {
  const ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "sst2");
  PutFile(scratch / "sst2" / "dev.tsv", "fine\t1\n");
  PutFile(scratch / "sst2" / "train.tsv", "a joy \t1\na bore\t0\n");
  ASSERT_OK_AND_ASSIGN(const v1::TaskSpec spec, BuiltinTask("sst2"));
  ASSERT_OK_AND_ASSIGN(const RecordSet set, ReadTaskRecords(spec, scratch.path()));
  ASSERT_THAT(set.records, SizeIs(2));
  EXPECT_EQ(set.records[0].turns[0].text,
            "a joy\nQuestion: Is this sentence positive or negative?\nAnswer:");
  EXPECT_EQ(set.records[0].turns[1].text, " positive");
  EXPECT_EQ(set.records[1].turns[1].text, " negative");
  EXPECT_TRUE(set.records[1].literal);
  EXPECT_EQ(set.records[1].place, (scratch / "sst2" / "train.tsv").string() + ":2");
  EXPECT_EQ(set.sources[0].task_share, 0);
  EXPECT_THAT(set.evaluated, IsEmpty());
  // A question that is evaluated on, with another answer.
  PutFile(scratch / "sst2" / "dev.tsv", "fine\t1\na bore\t1\n");
  ASSERT_OK_AND_ASSIGN(const RecordSet leaked, ReadTaskRecords(spec, scratch.path()));
  EXPECT_THAT(leaked.evaluated, ElementsAre((scratch / "sst2" / "train.tsv").string() + ":2"));
}

TEST(TaskRecordsTest, WithoutATrainingFileAShareOfTheExamplesIsTrainedOn) {
  const ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "amazon");
  std::string lines;
  for (int i = 0; i < 400; ++i) absl::StrAppend(&lines, 1 + i % 2, ",thing ", i, ",fine\n");
  PutFile(scratch / "amazon" / "test.csv", lines);
  ASSERT_OK_AND_ASSIGN(const v1::TaskSpec spec, BuiltinTask("amazon"));
  ASSERT_OK_AND_ASSIGN(const RecordSet set, ReadTaskRecords(spec, scratch.path()));
  EXPECT_EQ(set.sources[0].shared_task, "amazon");
  EXPECT_EQ(set.sources[0].task_share, kTrainingShare);
  EXPECT_THAT(set.evaluated, IsEmpty());
  // What is trained on and what evaluation keeps are all examples.
  ASSERT_OK_AND_ASSIGN(LoadedTask task, LoadTask(spec, scratch.path(), 0));
  ASSERT_OK(LeaveOutTrainingShare(kTrainingShare, &task));
  std::set<std::string> places;
  for (const SupervisedRecord& record : set.records) places.insert(record.place);
  for (const TaskExample& example : task.examples) places.insert(example.where);
  EXPECT_THAT(places, SizeIs(400));
  EXPECT_EQ(set.records.size() + task.examples.size(), 400u);
  EXPECT_NEAR(static_cast<double>(set.records.size()), 300, 30);
}

}  // namespace task_records_test
}  // namespace braid
