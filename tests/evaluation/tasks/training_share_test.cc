#include "evaluation/tasks/training_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace training_share_test {

using testing::SizeIs;

LoadedTask Task(int num_examples) {
  LoadedTask task;
  task.spec.set_name("made");
  for (int i = 0; i < num_examples; ++i) {
    TaskExample& example = task.examples.emplace_back();
    example.prompts = {absl::StrCat("question ", i)};
    example.continuations = {"yes", "no"};
    example.gold = i % 2;
  }
  return task;
}

std::set<std::string> Questions(const std::vector<TaskExample>& examples) {
  std::set<std::string> questions;
  for (const TaskExample& example : examples) questions.insert(QuestionText(example));
  return questions;
}

TEST(TrainingShareTest, IsAboutTheShareOfTheExamplesAndTheSameInAnyOrder) {
  LoadedTask task = Task(4000), reversed = Task(4000);
  std::ranges::reverse(reversed.examples);
  ASSERT_OK(LeaveOutTrainingShare(.75, &task));
  ASSERT_OK(LeaveOutTrainingShare(.75, &reversed));
  EXPECT_NEAR(static_cast<double>(task.num_left_out), 3000, 4 * 27.4);  // standard deviations
  EXPECT_EQ(task.num_left_out + std::ssize(task.examples), 4000);
  EXPECT_EQ(Questions(task.examples), Questions(reversed.examples));
}

TEST(TrainingShareTest, EqualQuestionsAreTogetherWhateverTheirAnswers) {
  LoadedTask task = Task(300);
  for (const TaskExample& example : Task(300).examples) {
    task.examples.push_back(example);
    task.examples.back().gold = 1 - example.gold;
  }
  ASSERT_OK(LeaveOutTrainingShare(.75, &task));
  const std::set<std::string> kept = Questions(task.examples);
  EXPECT_EQ(task.examples.size(), 2 * kept.size());
}

TEST(TrainingShareTest, DemonstrationsComeFromTheShareUnlessTheyHaveAFile) {
  LoadedTask task = Task(100);
  ASSERT_OK(LeaveOutTrainingShare(.75, &task));
  EXPECT_FALSE(task.demonstrations_are_examples);
  EXPECT_EQ(std::ssize(task.Demonstrations()), task.num_left_out);
  for (const std::string& question : Questions(task.examples)) {
    EXPECT_FALSE(Questions(task.others).contains(question));
  }
  LoadedTask with_file = Task(100);
  with_file.demonstrations_are_examples = false;
  with_file.others = Task(3).examples;
  ASSERT_OK(LeaveOutTrainingShare(.75, &with_file));
  EXPECT_THAT(with_file.Demonstrations(), SizeIs(3));
}

TEST(TrainingShareTest, AnswersToOtherExamplesAreNotReused) {
  LoadedTask whole = Task(100), half = Task(100), most = Task(100);
  ASSERT_OK(LeaveOutTrainingShare(.5, &half));
  ASSERT_OK(LeaveOutTrainingShare(.75, &most));
  const std::set<uint64_t> digests = {whole.files_digest, half.files_digest, most.files_digest};
  EXPECT_THAT(digests, SizeIs(3));
}

TEST(TrainingShareTest, SomethingMustBeLeft) {
  LoadedTask task = Task(20);
  EXPECT_FAILS(LeaveOutTrainingShare(1 - 1e-12, &task), absl::StatusCode::kInvalidArgument,
               "task \"made\": got 20 examples");
}

}  // namespace training_share_test
}  // namespace braid
