// End-to-end tests of `braid generate`: with pipes, files and a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/atomic_file.h"
#include "inference/generation.h"
#include "tests/program.h"
#include "tests/trainer/text_run.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace generate_test {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;
using testing::HasSubstr;
using testing::Not;

// Executes a program; does not return.
[[noreturn]] void Execute(Arguments arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  alarm(60);
  execv(pointers[0], pointers.data());
  _exit(127);
}

int WaitFor(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class GenerateCommandTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { run_ = new fs::path(TrainTextRun().root()); }

  GenerateCommandTest() : root_(NewDirectory("generate")) {}

  Arguments Command(const Arguments& more) const {
    Arguments all = {BRAID_BIN_DIR "/braid",
                     "--home",
                     (root_ / "home").string(),
                     "generate",
                     run_->string(),
                     "--threads",
                     "1",
                     "--max-tokens",
                     "12",
                     "--temperature",
                     "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Returns the exit code; the output is in out() and err().
  int Run(const Arguments& more, const std::string& input = "") {
    EXPECT_TRUE(WriteFileAtomically(root_ / "in", input).ok());
    TestProgram program(Command(more),
                        {.input = root_ / "in", .output = root_ / "out", .errors = root_ / "err"});
    return program.Wait();
  }
  std::string out() const { return *ReadFile(root_ / "out"); }
  std::string err() const { return *ReadFile(root_ / "err"); }

  static std::string Expected(const std::string& prompt) {
    v1::GenerateRequest request;
    request.set_model(run_->string());
    request.set_prompt(prompt);
    request.set_max_tokens(12);
    request.set_temperature(1);
    request.set_num_threads(1);
    std::string text;
    EXPECT_TRUE(
        Generate(request, [&](const v1::GenerateEvent& event) { text += event.text(); }).ok());
    return text;
  }

  static fs::path* run_;
  // Starts the program on a new terminal with `variable` added to the environment.
  pid_t StartAtTerminal(const Arguments& more, const char* variable, const char* value) {
    const pid_t pid = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid == 0) {
      setenv("TERM", "xterm", 1);
      if (variable != nullptr) setenv(variable, value, 1);
      Execute(Command(more));
    }
    return pid;
  }
  void Type(const std::string& keys) {
    EXPECT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // Waits until the terminal is not in the mode of line editing.
  bool KeysMakeSignals(bool expected) {
    return WaitUntil([&] {
      termios settings = {};
      return tcgetattr(terminal_, &settings) == 0 && ((settings.c_lflag & ISIG) != 0) == expected;
    });
  }

  const fs::path root_;
  int terminal_ = -1;
};

fs::path* GenerateCommandTest::run_ = nullptr;

TEST_F(GenerateCommandTest, ReadsThePromptFromArgumentsOrStandardInput) {
  ASSERT_EQ(Run({"--prompt", "the cat"}), 0) << err();
  EXPECT_EQ(out(), "the cat" + Expected("the cat") + "\n");
  EXPECT_THAT(err(), HasSubstr(" tokens/s]"));
  ASSERT_EQ(Run({"--prompt", "-", "--show-routing", "--routing", "segment"}, "the\ndog"), 0)
      << err();
  EXPECT_THAT(out(), testing::StartsWith("the\ndog"));
  EXPECT_THAT(err(), HasSubstr("layer  1  "));
}

TEST_F(GenerateCommandTest, AReaderThatClosesThePipeIsNotAnError) {
  Arguments all = {"/bin/bash", "-o", "pipefail", "-c", "\"$@\" | head -c 3", "bash"};
  const Arguments command = Command({"--prompt", "the cat"});
  all.insert(all.end(), command.begin(), command.end());
  TestProgram program(all, {.output = root_ / "out", .errors = root_ / "err"});
  EXPECT_EQ(program.Wait(), 0) << err();
  EXPECT_EQ(out(), "the");
  EXPECT_THAT(err(), Not(HasSubstr("braid: ")));
}

TEST_F(GenerateCommandTest, AnswersChats) {
  EXPECT_EQ(Run({"--chat", "--prompt", "the cat"}), 2);
  EXPECT_THAT(err(), HasSubstr("the model has no chat template"));
  EXPECT_THAT(err(), HasSubstr("--template"));
  EXPECT_EQ(Run({"--chat", "--template", "alpaca", "--prompt", "a"}), 2);
  EXPECT_THAT(err(), HasSubstr("expected at most 32"));
  ASSERT_EQ(Run({"--chat", "--template", "plain", "--prompt", "the cat"}), 0) << err();
  EXPECT_THAT(out(), testing::Not(testing::StartsWith("the cat")));
  EXPECT_EQ(Run({"--prompt", "the cat", "--beams", "3"}), 2);  // at temperature 1
  EXPECT_THAT(err(), HasSubstr("expected temperature 0"));
}

// At a terminal, too, where the temperature may change later.
TEST_F(GenerateCommandTest, RefusesOptionsOfTheSamplerWithBeams) {
  for (const Arguments& more : {Arguments{"--prompt", "the cat"}, Arguments{}}) {
    Arguments all = more;
    all.insert(all.end(), {"--beams", "3", "--seed", "5"});
    EXPECT_EQ(Run(all), 2);
    EXPECT_THAT(err(), HasSubstr("--seed: cannot be combined with --beams 3"));
  }
}

// The texts of concurrent requests equal those of the library.
TEST_F(GenerateCommandTest, PrintsPromptsOfAFileInOrder) {
  const Arguments prompts = {"the cat", "a dog", "the mat and", "c", "dd", "eee", "f f", "g"};
  std::string lines;
  for (const std::string& prompt : prompts) {
    lines += nlohmann::json({{"prompt", prompt}}).dump() + "\n";
  }
  ASSERT_EQ(Run({"--prompts", "-", "--parallel", "8", "--json"}, lines), 0) << err();
  std::istringstream answers(out());
  std::string line;
  for (size_t i = 0; i < prompts.size(); ++i) {
    ASSERT_TRUE(std::getline(answers, line));
    const auto answer = nlohmann::json::parse(line);
    EXPECT_EQ(answer["index"], i);
    EXPECT_EQ(answer["text"], Expected(prompts[i])) << prompts[i];
  }
  ASSERT_EQ(Run({"--prompts", "-"}, "the cat\n\na dog\n"), 0) << err();
  EXPECT_EQ(out(), "==> 1/2 <==\nthe cat" + Expected("the cat") + "\n\n==> 2/2 <==\na dog" +
                       Expected("a dog") + "\n");
}

TEST_F(GenerateCommandTest, ReportsErrorsAndContinuesWithOtherPrompts) {
  EXPECT_EQ(Run({}), 2);
  EXPECT_THAT(err(), HasSubstr("--prompts FILE"));
  EXPECT_EQ(Run({"--prompts", "/nowhere"}), 3);
  EXPECT_EQ(Run({"--prompts", "-"}, "\n"), 2);
  EXPECT_EQ(Run({"--prompts", "-"}, "{\"prompt\":\"a\"}\nb\n"), 2);
  EXPECT_THAT(err(), HasSubstr("standard input:2"));
  EXPECT_EQ(Run({"--prompts", "-", "--json"}, std::string(400, 'x') + "\nthe cat\n"), 2);
  EXPECT_THAT(out(), HasSubstr("\"error\""));
  EXPECT_THAT(out(), HasSubstr("\"index\":1"));
  EXPECT_THAT(err(), HasSubstr("prompt 1/2"));
}

// Reads until `text` appears or 30 s have passed.
bool ReadUntil(int terminal, const std::string& text, std::string* seen) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    const size_t found = seen->find(text);
    if (found != std::string::npos) {
      seen->erase(0, found + text.size());
      return true;
    }
    pollfd ready = {.fd = terminal, .events = POLLIN, .revents = 0};
    char bytes[4096];
    if (poll(&ready, 1, 100) <= 0) continue;
    const ssize_t n = read(terminal, bytes, sizeof(bytes));
    if (n <= 0) return false;
    seen->append(bytes, static_cast<size_t>(n));
  }
  return false;
}

TEST_F(GenerateCommandTest, StartsADialogueOnATerminal) {
  const pid_t pid = StartAtTerminal({}, nullptr, nullptr);
  std::string seen;
  const auto type = [&](const std::string& keys) {
    EXPECT_TRUE(ReadUntil(terminal_, "> ", &seen)) << seen;
    EXPECT_TRUE(KeysMakeSignals(false)) << seen;
    Type(keys);
  };
  type(
      "the cot\x08\x08"
      "at\x04\r");  // as an editor has it: back twice, "at", delete
  ASSERT_TRUE(ReadUntil(terminal_, " tokens/s]", &seen)) << seen;
  type(":set temperature 0.5\r");
  ASSERT_TRUE(ReadUntil(terminal_, "[temperature 0.5,", &seen)) << seen;
  type("never mind\x03");  // Ctrl-C gives up the line
  type(":nonsense\r");
  ASSERT_TRUE(ReadUntil(terminal_, "type :help", &seen)) << seen;
  type("\x1b[200~two\rlines\x1b[201~\r");  // a paste is one prompt
  ASSERT_TRUE(ReadUntil(terminal_, " tokens/s]", &seen)) << seen;
  type("\x04");
  EXPECT_EQ(WaitFor(pid), 0) << seen;
  close(terminal_);
}

TEST_F(GenerateCommandTest, CtrlCStopsTheTextAndSigtermTheProgram) {
  for (const bool terminated : {false, true}) {
    const pid_t pid = StartAtTerminal({}, nullptr, nullptr);
    std::string seen;
    ASSERT_TRUE(ReadUntil(terminal_, "> ", &seen)) << seen;
    ASSERT_TRUE(KeysMakeSignals(false)) << seen;
    Type("the cat\r");
    ASSERT_TRUE(KeysMakeSignals(true))
        << seen;  // the model is loaded, which takes longer than we do
    if (terminated) {
      kill(pid, SIGTERM);
      EXPECT_EQ(WaitFor(pid), 130);
    } else {
      Type("\x03");
      ASSERT_TRUE(ReadUntil(terminal_, "[stopped]", &seen)) << seen;
      ASSERT_TRUE(ReadUntil(terminal_, "> ", &seen)) << seen;
      ASSERT_TRUE(KeysMakeSignals(false)) << seen;
      Type("\x04");
      EXPECT_EQ(WaitFor(pid), 0);
    }
    close(terminal_);
  }
}

TEST_F(GenerateCommandTest, SigtermAtThePromptRestoresTheTerminal) {
  const pid_t pid = StartAtTerminal({}, nullptr, nullptr);
  std::string seen;
  ASSERT_TRUE(ReadUntil(terminal_, "> ", &seen)) << seen;
  kill(pid, SIGTERM);
  EXPECT_TRUE(ReadUntil(terminal_, "\x1b[?2004l", &seen)) << seen;
  EXPECT_EQ(WaitFor(pid), 130);
  close(terminal_);
}

TEST_F(GenerateCommandTest, ReadsUtf8InEveryLocale) {
  const pid_t pid = StartAtTerminal({}, "LC_ALL", "C");
  std::string seen;
  ASSERT_TRUE(ReadUntil(terminal_, "> ", &seen)) << seen;
  ASSERT_TRUE(KeysMakeSignals(false)) << seen;
  Type(":s\xC3\xA9t\r");
  EXPECT_TRUE(ReadUntil(terminal_, "got \":s\xC3\xA9t\"", &seen)) << seen;
  // Input during a change of the terminal mode would be lost.
  ASSERT_TRUE(ReadUntil(terminal_, "> ", &seen)) << seen;
  ASSERT_TRUE(KeysMakeSignals(false)) << seen;
  Type("\x04");
  EXPECT_EQ(WaitFor(pid), 0);
  close(terminal_);
}

std::vector<std::vector<double>> Figures(const nlohmann::json& routing) {
  std::vector<std::vector<double>> all;
  for (const auto& mixture : routing) {
    all.push_back({mixture["layer"].get<double>(), mixture["before_token"].get<double>()});
    for (const auto& weight : mixture["weights"]) all.back().push_back(weight.get<double>());
  }
  return all;
}

// The service uses other threads, which changes rounding.
void ExpectNear(const std::vector<std::vector<double>>& told,
                const std::vector<std::vector<double>>& expected) {
  ASSERT_EQ(told.size(), expected.size());
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_THAT(told[i], testing::Pointwise(testing::DoubleNear(1e-4), expected[i]));
  }
}

// The service merges events without losing any.
TEST_F(GenerateCommandTest, RoutingMatchesTheLibrary) {
  v1::GenerateRequest request;
  request.set_model(run_->string());
  request.set_prompt("the cat");
  request.set_max_tokens(12);
  request.set_temperature(1);
  request.set_num_threads(1);
  request.set_want_routing(true);
  request.set_routing(v1::SEGMENT_ROUTING);
  std::vector<std::vector<double>> expected, told;
  ASSERT_TRUE(Generate(request, [&](const v1::GenerateEvent& event) {
                for (const auto& mixture : event.routing()) {
                  expected.push_back({static_cast<double>(mixture.layer()),
                                      static_cast<double>(mixture.before_token())});
                  expected.back().insert(expected.back().end(), mixture.weights().begin(),
                                         mixture.weights().end());
                }
              }).ok());
  ASSERT_GT(expected.size(), 2u);
  const Arguments routing = {"--show-routing", "--routing", "segment", "--json"};
  Arguments one = routing;
  one.insert(one.end(), {"--prompt", "the cat"});
  ASSERT_EQ(Run(one), 0) << err();
  std::istringstream lines(out());
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    EXPECT_TRUE(event.contains("num_tokens")) << line;
    for (auto& figures : Figures(event.value("routing", nlohmann::json::array()))) {
      told.push_back(figures);
    }
  }
  ExpectNear(told, expected);
  Arguments many = routing;
  many.insert(many.end(), {"--prompts", "-"});
  ASSERT_EQ(Run(many, "the cat\n"), 0) << err();
  ExpectNear(Figures(nlohmann::json::parse(out())["routing"]), expected);
}

TEST_F(GenerateCommandTest, TogetherGeneratesAllTexts) {
  ASSERT_EQ(Run({"--prompts", "-", "--parallel", "3", "--together", "--json"}, "the\na\nthe dog\n"),
            0)
      << err();
  EXPECT_EQ(std::ranges::count(out(), '\n'), 3);
  EXPECT_EQ(Run({"--prompt", "a", "--temperature", "inf"}), 2);
}

}  // namespace generate_test
}  // namespace braid
