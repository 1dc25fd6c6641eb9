#include "evaluation/tasks/task_evaluation.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluation/tasks/answer_log.h"
#include "evaluation/tasks/task_spec.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/fake_decoder.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace task_evaluation_test {

constexpr int64_t kContext = 1024;

class TaskEvaluationTest : public testing::Test {
 protected:
  AskedModel Model() {
    AskedModel model;
    model.codec = ByteCodec();
    model.context_length = kContext;
    model.identity = "fake";
    model.new_decoder = [this](v1::InferenceRouting) {
      auto decoder = std::make_unique<FakeDecoder>(257, kContext);
      decoder_ = decoder.get();
      return decoder;
    };
    return model;
  }
  TaskEvaluationOptions Options() {
    TaskEvaluationOptions options;
    options.answers_dir = scratch_.path();
    return options;
  }
  // Also counts the examples that were scored.
  v1::TaskResult Evaluate(const LoadedTask& task, const TaskEvaluationOptions& options) {
    const auto count = [this](int64_t done, int64_t total) {
      if (done == total) asked_ = decoder_->prefills();
    };
    return EvaluateTask(task, Model(), options, count).value();
  }

  ScratchDirectory scratch_;
  FakeDecoder* decoder_ = nullptr;
  int64_t asked_ = 0;
};

TEST_F(TaskEvaluationTest, StoredAnswersAreNotComputedAgain) {
  const LoadedTask task = SampleTask("piqa");
  const v1::TaskResult first = Evaluate(task, Options());
  EXPECT_EQ(asked_, 3);
  EXPECT_EQ(first.num_examples(), 3);
  const v1::TaskResult second = Evaluate(task, Options());
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
}

TEST_F(TaskEvaluationTest, MoreExamplesReuseTheAnswersOfFewer) {
  const LoadedTask task = SampleTask("piqa");
  TaskEvaluationOptions options = Options();
  options.max_examples = 2;
  EXPECT_EQ(Evaluate(task, options).num_examples(), 2);
  options.max_examples = 0;
  EXPECT_EQ(Evaluate(task, options).num_examples(), 3);
  EXPECT_EQ(asked_, 1);
}

TEST_F(TaskEvaluationTest, FewerExamplesAreAmongMore) {
  for (const int64_t total : {1, 2, 7, 100}) {
    std::vector<int64_t> fewer;
    for (int64_t count = 1; count <= total; ++count) {
      const std::vector<int64_t> more = SampleExamples(total, count);
      EXPECT_EQ(static_cast<int64_t>(std::set(more.begin(), more.end()).size()), count);
      EXPECT_TRUE(std::ranges::includes(more, fewer)) << count << " of " << total;
      EXPECT_TRUE(more.front() >= 0 && more.back() < total);
      fewer = more;
    }
    EXPECT_EQ(SampleExamples(total, 0), fewer);
    EXPECT_EQ(SampleExamples(total, total + 1), fewer);
  }
}

TEST_F(TaskEvaluationTest, CleanExamplesHaveFiguresOfTheirOwn) {
  const LoadedTask task = SampleTask("piqa");
  TaskEvaluationOptions options = Options();
  const v1::TaskResult unknown = Evaluate(task, options);
  EXPECT_FALSE(unknown.has_num_clean_examples());
  EXPECT_TRUE(unknown.clean_metrics().empty());
  options.is_clean = [](std::string_view) { return true; };
  const v1::TaskResult all = Evaluate(task, options);
  EXPECT_EQ(all.num_clean_examples(), 3);
  ASSERT_EQ(all.clean_metrics_size(), all.metrics_size());
  EXPECT_EQ(all.clean_metrics(0).value(), all.metrics(0).value());
  // One example is dirty by its prompt, another one by a choice.
  const std::string prompt = task.examples[0].prompts[0];
  const std::string choice = task.examples[2].continuations[1];
  options.is_clean = [&](std::string_view text) { return text != prompt && text != choice; };
  const v1::TaskResult some = Evaluate(task, options);
  EXPECT_EQ(some.num_examples(), 3);
  EXPECT_EQ(some.num_clean_examples(), 1);
  EXPECT_EQ(some.clean_metrics(0).name(), some.metrics(0).name());
  options.is_clean = [](std::string_view) { return false; };
  const v1::TaskResult none = Evaluate(task, options);
  EXPECT_EQ(none.num_clean_examples(), 0);
  EXPECT_TRUE(none.has_num_clean_examples());
  EXPECT_TRUE(none.clean_metrics().empty());
}

TEST_F(TaskEvaluationTest, OtherSettingsHaveTheirOwnAnswerFiles) {
  LoadedTask task = SampleTask("piqa");
  AskedModel model = Model();
  TaskEvaluationOptions options = Options();
  const auto path = [&] { return AnswersPath(task, model, options).string(); };
  std::set<std::string> paths = {path()};
  options.routing = v1::PROMPT_ROUTING;
  paths.insert(path());
  options.num_shots = 1;
  paths.insert(path());
  options.seed = 1;
  paths.insert(path());
  model.identity = "another";
  paths.insert(path());
  task.spec.set_prompt("{goal}");
  paths.insert(path());
  task.files_digest += 1;
  paths.insert(path());
  EXPECT_EQ(paths.size(), 7u);
  options.max_examples = 5;
  EXPECT_TRUE(paths.contains(path()));
  // The mark of answers that may exceed half of the context is not a number of active experts.
  task.spec = SampleTask("nq").spec;
  options.active_experts = 1;
  paths = {path()};
  options.active_experts = 0;
  model.context_length = 40;
  EXPECT_FALSE(paths.contains(path()));
}

TEST_F(TaskEvaluationTest, TheExampleOfATornLineIsEvaluatedAgain) {
  const LoadedTask task = SampleTask("piqa");
  const v1::TaskResult whole = Evaluate(task, Options());
  const std::filesystem::path path = AnswersPath(task, Model(), Options());
  const std::string text = GetFile(path);
  for (size_t length = 0; length < text.size(); ++length) {
    PutFile(path, text.substr(0, length));
    EXPECT_EQ(Evaluate(task, Options()).SerializeAsString(), whole.SerializeAsString());
    EXPECT_EQ(GetFile(path), text) << length;
  }
}

TEST_F(TaskEvaluationTest, TheExampleOfADamagedLineIsEvaluatedAgain) {
  const LoadedTask task = SampleTask("piqa");
  v1::TaskResult whole = Evaluate(task, Options());
  const std::filesystem::path path = AnswersPath(task, Model(), Options());
  const std::string text = GetFile(path);
  const size_t begin = text.find('\n') + 1, end = text.find('\n', begin);
  // A digit becomes another, a line becomes no JSON, and the name of the checksum disappears.
  const size_t score = text.find("\"log_prob\":[-", begin) + 13;
  for (const size_t at : {score, begin, text.find("crc32c", begin)}) {
    ASSERT_LT(at, end);
    std::string damaged = text;
    damaged[at] = text[at] == '7' ? '8' : '7';
    PutFile(path, damaged);
    const v1::TaskResult again = Evaluate(task, Options());
    EXPECT_EQ(asked_, 1) << at;
    EXPECT_EQ(again.num_damaged_answers(), 1) << at;
    whole.set_num_damaged_answers(1);
    EXPECT_EQ(again.SerializeAsString(), whole.SerializeAsString()) << at;
    EXPECT_EQ(Evaluate(task, Options()).num_damaged_answers(), 0) << "the line is gone";
    EXPECT_EQ(asked_, 0);
  }
}

TEST_F(TaskEvaluationTest, AnswersWithoutChecksumsAreEvaluatedAgain) {
  const LoadedTask task = SampleTask("piqa");
  PutFile(AnswersPath(task, Model(), Options()),
          "{}\n"
          R"({"example":0,"log_prob":[-1,-2],"shots":0,"tokens":[1,2],"unconditional":[0,0]})"
          "\n");
  EXPECT_EQ(Evaluate(task, Options()).num_damaged_answers(), 1);
  EXPECT_EQ(asked_, 3);
}

TEST_F(TaskEvaluationTest, AnAnswerThatDoesNotFitItsTaskIsAnError) {
  const LoadedTask task = SampleTask("piqa");
  const std::filesystem::path path = AnswersPath(task, Model(), Options());
  const auto status = [&](int64_t example, const std::vector<ChoiceScore>& choices) {
    std::filesystem::remove(path);
    ExampleAnswer answer;
    answer.example = example;
    answer.choices = choices;
    if (choices.empty()) answer.text = "x";
    EXPECT_OK(
        AnswerLog::Open(path, "{}", [](const auto&) { return true; }).value()->Append(answer));
    return EvaluateTask(task, Model(), Options(), [](int64_t, int64_t) {}).status();
  };
  const std::vector<ChoiceScore> good = {{-1, 1, 0}, {-2, 2, 0}};
  EXPECT_OK(status(2, good));
  for (const int64_t example : {-1, 3}) {
    EXPECT_FAILS(status(example, good), absl::StatusCode::kDataLoss, path.string() + ":2");
  }
  const std::vector<ChoiceScore> one = {{-1, 1, 0}}, without_tokens = {{-1, 1, 0}, {-2, 0, 0}};
  for (const auto& choices : {std::vector<ChoiceScore>(), one, without_tokens}) {
    EXPECT_FAILS(status(0, choices), absl::StatusCode::kDataLoss, path.string() + ":2");
  }
}

// After a NaN score nothing is stored.
TEST_F(TaskEvaluationTest, AModelWithoutFiniteScoresFailsAndStoresNothing) {
  for (const char* name : {"piqa", "nq"}) {
    const LoadedTask task = SampleTask(name);
    AskedModel model = Model();
    model.new_decoder = [](v1::InferenceRouting) {
      auto decoder = std::make_unique<FakeDecoder>(257, kContext);
      decoder->SayNaN();
      return decoder;
    };
    EXPECT_FAILS(EvaluateTask(task, model, Options(), [](int64_t, int64_t) {}),
                 absl::StatusCode::kInternal, name, task.examples[0].where, "nan");
    const std::string log = GetFile(AnswersPath(task, model, Options()));
    EXPECT_EQ(log.find('\n'), log.size() - 1);
  }
}

// After the first question a decoder holds the demonstrations, so only the tokens of the question
// itself are new, whether or not unconditional contexts are scored in between.
TEST_F(TaskEvaluationTest, DemonstrationsAreSharedByAllExamples) {
  for (const char* name : {"agnews", "race_h", "winogrande", "nq"}) {
    SCOPED_TRACE(name);
    LoadedTask task = SampleTask(name);
    if (task.demonstrations_are_examples) task.others = SampleTask("piqa").examples;
    task.demonstrations_are_examples = false;
    if (task.spec.has_free()) {
      for (TaskExample& other : task.others) other.references = {"x"};
    }
    const DemonstrationSet shots(task, 2, 0, ByteCodec());
    int64_t demonstrations = 1;  // EOS
    for (const Demonstration* shot : shots.For(task.examples[0]))
      demonstrations += shot->num_tokens;
    AskedModel model = Model();
    model.context_length = 1 << 16;
    std::vector<int64_t> reused;
    model.new_decoder = [&](v1::InferenceRouting) {
      auto decoder = std::make_unique<FakeDecoder>(257, 1 << 16);
      decoder->RecordReused(&reused);
      return decoder;
    };
    TaskEvaluationOptions options = Options();
    options.num_shots = 2;
    ASSERT_OK(EvaluateTask(task, model, options, [](int64_t, int64_t) {}));
    int64_t fresh = 0;
    for (const int64_t tokens : reused) fresh += tokens == 0;
    EXPECT_LE(fresh, 2);  // the first example of both decoders
    EXPECT_GE(std::ranges::count_if(reused, [&](int64_t n) { return n >= demonstrations; }),
              static_cast<int64_t>(task.examples.size()) - 1);
  }
}

TEST_F(TaskEvaluationTest, ShownDemonstrationsAreCounted) {
  LoadedTask task = SampleTask("piqa");
  TaskEvaluationOptions options = Options();
  options.num_shots = 5;  // two others of three examples
  EXPECT_EQ(Evaluate(task, options).mean_shots(), 2);
  EXPECT_EQ(Evaluate(task, options).num_shots(), 5);
}

TEST_F(TaskEvaluationTest, OneEvaluationWritesAtATime) {
  const LoadedTask task = SampleTask("piqa");
  const std::filesystem::path path = AnswersPath(task, Model(), Options());
  ASSERT_OK_AND_ASSIGN(const auto log,
                       AnswerLog::Open(path, "{}", [](const auto&) { return true; }));
  EXPECT_FAILS(EvaluateTask(task, Model(), Options(), [](int64_t, int64_t) {}),
               absl::StatusCode::kFailedPrecondition, "another evaluation");
}

// A process is killed after each number of answers in turn; the next one continues.
TEST_F(TaskEvaluationTest, ContinuesAfterBeingKilled) {
  const LoadedTask task = SampleTask("agnews");
  ScratchDirectory other;
  TaskEvaluationOptions undisturbed = Options();
  undisturbed.answers_dir = other.path();
  const v1::TaskResult expected = Evaluate(task, undisturbed);
  for (int64_t kill_at = 0; kill_at < 3; ++kill_at) {
    const pid_t child = fork();
    if (child == 0) {
      (void)EvaluateTask(task, Model(), Options(), [&](int64_t done, int64_t) {
        if (done == kill_at) kill(getpid(), SIGKILL);
      });
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_EQ(Evaluate(task, Options()).SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(asked_, 1);
}

TEST_F(TaskEvaluationTest, LabelHeadsAreAskedForTheClassesAfterTheBarePrompt) {
  const LoadedTask task = SampleTask("sst2");
  AskedModel model = Model();
  model.classes = {"positive", "negative"};
  model.new_decoder = [](v1::InferenceRouting) {
    return std::make_unique<FakeDecoder>(2, kContext);
  };
  TaskEvaluationOptions options = Options();
  options.num_shots = 0;
  options.want_examples = true;
  const auto ignore = [](int64_t, int64_t) {};
  ASSERT_OK_AND_ASSIGN(const v1::TaskResult result, EvaluateTask(task, model, options, ignore));
  double correct = 0;
  ASSERT_EQ(result.examples_size(), std::ssize(task.examples));
  for (int i = 0; i < result.examples_size(); ++i) {
    const TaskExample& example = task.examples[static_cast<size_t>(i)];
    std::vector<int32_t> prompt = {model.codec.eos_id};
    const std::vector<int32_t> text = model.codec.encode(example.prompts[0]);
    prompt.insert(prompt.end(), text.begin(), text.end());
    const std::vector<float> logits = FakeLogits(prompt, 2);
    // The task's choices are negative, positive.
    const double right = logits[1 - example.gold], wrong = logits[example.gold];
    EXPECT_NEAR(result.examples(i).answer_loss(), std::log1p(std::exp(wrong - right)), 1e-6) << i;
    correct += right > wrong ? 1 : 0;
  }
  EXPECT_NEAR(result.metrics(0).value(), correct / result.examples_size(), 1e-9);
  options.num_shots = 2;
  EXPECT_FAILS(EvaluateTask(task, model, options, ignore), absl::StatusCode::kInvalidArgument,
               "num_shots: got 2, expected 0");
  options.num_shots = 0;
  EXPECT_FAILS(EvaluateTask(SampleTask("piqa"), model, options, ignore),
               absl::StatusCode::kInvalidArgument, "got no choices that all examples share");
  model.classes = {"positive", "negative", "neutral"};
  EXPECT_FAILS(EvaluateTask(task, model, options, ignore), absl::StatusCode::kInvalidArgument,
               "got the choices negative, positive, expected the classes of the model's label "
               "head: positive, negative, neutral");
}

}  // namespace task_evaluation_test
}  // namespace braid
