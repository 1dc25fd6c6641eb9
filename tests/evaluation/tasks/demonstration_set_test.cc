#include "evaluation/tasks/demonstration_set.h"

#include <algorithm>
#include <set>

#include "evaluation/tasks/random_order.h"
#include "evaluation/tasks/task_spec.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace demonstration_set_test {

std::vector<std::string> Texts(const LoadedTask& task, const TaskExample& example, int shots,
                               uint64_t seed) {
  const DemonstrationSet set(task, shots, seed, ByteCodec());
  std::vector<std::string> texts;
  for (const Demonstration* shot : set.For(example)) texts.push_back(shot->text);
  return texts;
}

// Questions q0, q1, ... with correct answers r0, r1, ...
LoadedTask Numbered(int count) {
  LoadedTask task;
  task.spec = BuiltinTask("piqa").value();
  for (int i = 0; i < count; ++i) {
    TaskExample example;
    example.prompts = {"q" + std::to_string(i)};
    example.continuations = {"r" + std::to_string(i), "w"};
    task.examples.push_back(example);
  }
  return task;
}

TaskExample Stranger() {
  TaskExample example;
  example.prompts = {"?"};
  example.continuations = {"!"};
  return example;
}

TEST(RandomOrderTest, HoldsEveryNumberOnceAndDependsOnItsStream) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t stream = 0; stream < 200; ++stream) {
    std::vector<int64_t> numbers;
    for (RandomOrder order(4, stream); !order.done();) numbers.push_back(order.Next());
    std::vector<int64_t> sorted = numbers;
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted, (std::vector<int64_t>{0, 1, 2, 3}));
    orders.insert(numbers);
  }
  EXPECT_EQ(orders.size(), 24u);
  EXPECT_TRUE(RandomOrder(0, 1).done());
}

TEST(DemonstrationSetTest, IsTheSameForAllExamplesExceptTheExampleItself) {
  const LoadedTask task = Numbered(30);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<std::string> all = Texts(task, Stranger(), 6, seed);
    ASSERT_EQ(all.size(), 6u);
    for (const TaskExample& example : task.examples) {
      std::vector<std::string> expected = Texts(task, Stranger(), 7, seed);
      std::erase(expected, example.prompts[0] + " " + example.continuations[0] + "\n\n");
      expected.resize(6);
      EXPECT_EQ(Texts(task, example, 6, seed), expected);
      const std::vector<std::string> fewer = Texts(task, example, 3, seed);
      EXPECT_TRUE(std::ranges::equal(fewer, std::span(expected).first(3)));
    }
  }
}

TEST(DemonstrationSetTest, HasNoTextTwiceAndNoneOfTheExamples) {
  LoadedTask task = Numbered(3);
  for (int i = 0; i < 20; ++i) task.examples.push_back(task.examples[1]);
  const std::vector<std::string> texts = Texts(task, task.examples[1], 9, 1);
  EXPECT_THAT(texts, testing::UnorderedElementsAre("q0 r0\n\n", "q2 r2\n\n"));
}

TEST(DemonstrationSetTest, NeverHasTheQuestionOfAFreeAnswer) {
  LoadedTask task;
  task.spec = BuiltinTask("nq").value();
  // The same question with other answers reveals the answer.
  for (const char* answer : {"1871", "in 1871"}) {
    TaskExample example;
    example.prompts = {"Q: when\nA:"};
    example.references = {answer};
    task.examples.push_back(example);
  }
  EXPECT_TRUE(Texts(task, task.examples[0], 1, 0).empty());
}

// The situation of nq when only the efficientqa files exist.
TEST(DemonstrationSetTest, OfTheExamplesOwnFileLeavesTheExampleOut) {
  ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "nq_open");
  PutFile(scratch / "nq_open/NQ-open.efficientqa.dev.1.1.jsonl",
          R"({"question": "who", "answer": ["A"]})"
          "\n"
          R"({"question": "when", "answer": ["B"]})"
          "\n");
  ASSERT_OK_AND_ASSIGN(const LoadedTask task,
                       LoadTask(BuiltinTask("nq").value(), scratch.path(), 1));
  EXPECT_TRUE(task.demonstrations_are_examples);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_THAT(Texts(task, task.examples[0], 1, seed), testing::ElementsAre("Q: when?\nA: B\n"));
  }
}

TEST(DemonstrationSetTest, MalformedDemonstrationsAreErrorsOnlyWhenDemonstrationsAreUsed) {
  ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "piqa");
  const std::string good = R"({"goal": "g", "sol1": "a", "sol2": "b"})";
  PutFile(scratch / "piqa/valid.jsonl", good);
  PutFile(scratch / "piqa/valid-labels.lst", "0");
  const auto load = [&](const std::string& record, int shots) {
    PutFile(scratch / "piqa/train.jsonl", record);
    PutFile(scratch / "piqa/train-labels.lst", "0");
    return LoadTask(BuiltinTask("piqa").value(), scratch.path(), shots).status();
  };
  EXPECT_OK(load(R"({"goal": "g", "sol1": "a", "sol2": ""})", 1));
  EXPECT_FAILS(load(R"({"goal": "g", "sol1": "", "sol2": "b"})", 1),
               absl::StatusCode::kInvalidArgument, "train.jsonl:1", "empty");
  EXPECT_OK(load(R"({"goal": "g", "sol1": "", "sol2": "b"})", 0));
}

}  // namespace demonstration_set_test
}  // namespace braid
