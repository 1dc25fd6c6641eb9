#include "retrieval/contriever_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "retrieval/embedder_pipe.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/retrieval/tiny_bert.h"

namespace braid {
namespace contriever_process_test {

using Clock = std::chrono::steady_clock;

absl::StatusOr<std::vector<float>> Embed(const Embedder& embedder,
                                         const std::vector<std::string>& texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<float> vectors(texts.size() * static_cast<size_t>(embedder.dimension()));
  if (absl::Status status = embedder.Embed(views, vectors); !status.ok()) return status;
  return vectors;
}

class ContrieverProcessTest : public testing::Test {
 protected:
  ContrieverProcessTest() {
    setenv("BRAID_EMBEDDER_PROGRAM", BRAID_EMBEDDER, 1);
    WriteTinyBert({}, scratch_.path());
  }

  static void SetUpTestSuite() {
    setenv("BRAID_EMBEDDER_PROGRAM", BRAID_EMBEDDER, 1);
    shared_directory_ = new ScratchDirectory;
    WriteTinyBert({}, shared_directory_->path());
    auto started = ContrieverProcess::Start(
        {.directory = shared_directory_->path(), .max_tokens = 5, .num_threads = 1});
    ASSERT_OK(started);
    shared_ = started->release();
  }
  static void TearDownTestSuite() {
    delete shared_;
    delete shared_directory_;
  }
  // One process for all tests that do not change it, because starting one takes seconds.
  static const ContrieverProcess& Shared() { return *shared_; }

  absl::StatusOr<std::unique_ptr<ContrieverProcess>> Start(ContrieverProcessOptions options = {}) {
    options.directory = scratch_.path();
    options.num_threads = 1;
    return ContrieverProcess::Start(options);
  }

  static inline ScratchDirectory* shared_directory_ = nullptr;
  static inline const ContrieverProcess* shared_ = nullptr;
  ScratchDirectory scratch_;
};

TEST_F(ContrieverProcessTest, EmbedsCountsAndReportsItsFingerprint) {
  const ContrieverProcess& embedder = Shared();
  EXPECT_EQ(embedder.dimension(), 24);
  EXPECT_THAT(embedder.fingerprint(), testing::StartsWith("contriever-"));
  ASSERT_OK_AND_ASSIGN(const auto vectors, Embed(embedder, {"abc", "", "a b c d"}));
  double squares = 0;
  for (size_t i = 0; i < 24; ++i) squares += static_cast<double>(vectors[i]) * vectors[i];
  EXPECT_NEAR(squares, 1, 1e-5);
  for (size_t i = 24; i < 48; ++i) EXPECT_EQ(vectors[i], 0);
  ASSERT_OK(Embed(embedder, {}));
  std::vector<float> room(24 * 300);
  const std::vector<std::string_view> texts(300, "a b c d");
  EXPECT_EQ(embedder.EmbedAndCountCut(texts, room).value_or(-1), 300);
  const std::vector<std::string_view> one = {"a b c", "a b c d"};
  EXPECT_EQ(embedder.EmbedAndCountCut(one, std::span(room).first(48)).value_or(-1), 1);
}

TEST_F(ContrieverProcessTest, EmbedsMoreTextsThanOneRequestHolds) {
  ASSERT_OK_AND_ASSIGN(const auto one, Embed(Shared(), {"abc d"}));
  ASSERT_OK_AND_ASSIGN(const auto many, Embed(Shared(), std::vector<std::string>(600, "abc d")));
  for (size_t i = 0; i < many.size(); ++i) ASSERT_NEAR(many[i], one[i % 24], 1e-5) << i;
}

TEST_F(ContrieverProcessTest, ReportsTheErrorOfAModel) {
  EXPECT_FAILS(Start({.max_tokens = 33}), absl::StatusCode::kInvalidArgument, "max_tokens", "33");
  std::filesystem::remove(scratch_ / "vocab.txt");
  EXPECT_FAILS(Start(), absl::StatusCode::kNotFound, "vocab.txt");
  setenv("BRAID_EMBEDDER_PROGRAM", "/nowhere/braid-embedder", 1);
  EXPECT_FAILS(Start(), absl::StatusCode::kNotFound, "/nowhere/braid-embedder");
  setenv("BRAID_EMBEDDER_PROGRAM", "/bin/false", 1);
  EXPECT_FAILS(Start(), absl::StatusCode::kInternal, "exited with code 1");
}

TEST_F(ContrieverProcessTest, RestartsAKilledProcessButNotWithAnotherModel) {
  ASSERT_OK_AND_ASSIGN(const auto embedder, Start());
  ASSERT_OK_AND_ASSIGN(const auto before, Embed(*embedder, {"abc d"}));
  const pid_t first = embedder->pid();
  ASSERT_EQ(kill(first, SIGKILL), 0);
  ASSERT_OK_AND_ASSIGN(const auto after, Embed(*embedder, {"abc d"}));
  EXPECT_NE(embedder->pid(), first);
  EXPECT_EQ(before, after);
  WriteTinyBert({.seed = 2}, scratch_.path());
  ASSERT_EQ(kill(embedder->pid(), SIGKILL), 0);
  EXPECT_FAILS(Embed(*embedder, {"abc"}), absl::StatusCode::kFailedPrecondition, "changed");
}

TEST_F(ContrieverProcessTest, EndsAtOnceWhenCancelled) {
  bool stop = false;
  ASSERT_OK_AND_ASSIGN(const auto embedder, Start({.keep_going = [&stop] {
                         return stop ? absl::CancelledError("stop") : absl::OkStatus();
                       }}));
  ASSERT_EQ(kill(embedder->pid(), SIGSTOP), 0);  // a batch that never ends
  stop = true;
  const auto begin = Clock::now();
  EXPECT_FAILS(Embed(*embedder, {"abc"}), absl::StatusCode::kCancelled, "stop");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(embedder->pid(), 0);
  stop = false;
  EXPECT_OK(Embed(*embedder, {"abc"}));
}

TEST_F(ContrieverProcessTest, ReplacesAProcessThatHangs) {
  ASSERT_OK_AND_ASSIGN(const auto embedder, Start({.max_idle = std::chrono::seconds(2)}));
  ASSERT_OK_AND_ASSIGN(const auto before, Embed(*embedder, {"abc d"}));
  const pid_t first = embedder->pid();
  ASSERT_EQ(kill(first, SIGSTOP), 0);
  ASSERT_OK_AND_ASSIGN(const auto after, Embed(*embedder, {"abc d"}));
  EXPECT_NE(embedder->pid(), first);
  EXPECT_EQ(before, after);
  const std::filesystem::path program = scratch_ / "hangs";
  PutFile(program, "#!/bin/sh\nexec sleep 60\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  setenv("BRAID_EMBEDDER_PROGRAM", program.c_str(), 1);
  EXPECT_FAILS(Start({.max_idle = std::chrono::milliseconds(200)}),
               absl::StatusCode::kDeadlineExceeded, "braid-embedder hangs", "for 0.2 s");
}

TEST_F(ContrieverProcessTest, EndsAProcessThatComputesWithoutAnEnd) {
  const std::filesystem::path program = scratch_ / "spins";
  PutFile(program, "#!/bin/sh\nwhile :; do :; done\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  setenv("BRAID_EMBEDDER_PROGRAM", program.c_str(), 1);
  EXPECT_FAILS(Start({.max_call = std::chrono::milliseconds(500)}),
               absl::StatusCode::kDeadlineExceeded, "braid-embedder hangs",
               "has not answered for 0.5 s");
}

TEST_F(ContrieverProcessTest, ServesManyThreads) {
  const ContrieverProcess& embedder = Shared();
  std::mt19937 random(1);
  const std::vector<std::string> texts = {RandomWords(3, &random), RandomWords(9, &random)};
  ASSERT_OK_AND_ASSIGN(const auto expected, Embed(embedder, texts));
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto got = Embed(embedder, texts);
      EXPECT_TRUE(got.ok() && *got == expected) << got.status();
    });
  }
}

// The embedding process must end when its parent is killed.
TEST_F(ContrieverProcessTest, EndsWithItsParent) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto embedder = Start();
    const pid_t child = embedder.ok() ? (*embedder)->pid() : 0;
    if (write(pipe_ends[1], &child, sizeof(child)) != sizeof(child)) _exit(1);
    pause();
  }
  pid_t child = 0;
  ASSERT_EQ(read(pipe_ends[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  ASSERT_GT(child, 0);
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  const auto gone = [child] {  // it ended, or waits to be reaped by its new parent
    const std::string stat = GetFile("/proc/" + std::to_string(child) + "/stat");
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  };
  while (!gone() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(gone()) << child;
}

// An embedder with one number per text: its length, or an error for "bad".
class LengthEmbedder final : public Embedder {
 public:
  int32_t dimension() const override { return 1; }
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i] == "bad") return absl::UnavailableError("a bad text");
      vectors[i] = static_cast<float>(texts[i].size());
    }
    return absl::OkStatus();
  }
  std::string fingerprint() const override { return "length"; }
};

TEST(EmbedderPipeTest, CarriesTextsVectorsAndErrors) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const LengthEmbedder embedder;
  absl::Status served = absl::UnknownError("");
  {
    std::jthread server([&] { served = ServeEmbedder(ends[1], &embedder); });
    EmbedderConnection connection(ends[0]);
    ASSERT_OK_AND_ASSIGN(const EmbedderHello hello, connection.ReceiveHello(nullptr));
    EXPECT_EQ(hello.dimension, 1);
    EXPECT_EQ(hello.fingerprint, "length");
    const std::string large(3 << 20, 'x');
    std::vector<float> vectors(3);
    ASSERT_OK(connection.Embed(std::vector<std::string_view>{"", "ab", large}, vectors, nullptr));
    EXPECT_THAT(vectors, testing::ElementsAre(0, 2, 3 << 20));
    std::vector<float> one(1);
    EXPECT_FAILS(connection.Embed(std::vector<std::string_view>{"bad"}, one, nullptr),
                 absl::StatusCode::kFailedPrecondition, "a bad text");
    EXPECT_TRUE(connection.usable());
    EXPECT_OK(connection.Embed(std::vector<std::string_view>{"good"}, one, nullptr));
  }
  EXPECT_OK(served);
  close(ends[1]);
}

}  // namespace contriever_process_test
}  // namespace braid
