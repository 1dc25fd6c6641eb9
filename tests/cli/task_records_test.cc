#include "cli/task_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evaluation/tasks/task_spec.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace task_records_test {

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
  std::filesystem::remove(scratch / "sst2" / "train.tsv");
  EXPECT_FAILS(ReadTaskRecords(spec, scratch.path()), absl::StatusCode::kFailedPrecondition,
               "got no training file");
}

}  // namespace task_records_test
}  // namespace braid
