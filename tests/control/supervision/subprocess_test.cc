#include "control/supervision/subprocess.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace braid {
namespace subprocess_test {

using testing::ElementsAre;
using testing::HasSubstr;

struct Output {
  SubprocessResult result;
  std::vector<std::string> lines;
};

Output Shell(const std::string& script, std::vector<std::string> environment = {}) {
  Output output;
  output.result =
      RunSubprocess(
          {.arguments = {"/bin/sh", "-c", script}, .environment = std::move(environment)},
          [&](std::string_view line) {
            output.lines.emplace_back(line);
            return true;
          },
          [] { return false; })
          .value();
  return output;
}

TEST(SubprocessTest, ReturnsLinesAndExitCode) {
  const Output output = Shell("echo one; printf 'two\\n\\nlast'; exit 3");
  EXPECT_THAT(output.lines, ElementsAre("one", "two", "", "last"));
  EXPECT_EQ(output.result.exit_code, 3);
  EXPECT_FALSE(output.result.killed);
}

TEST(SubprocessTest, KeepsTheEndOfStandardError) {
  const Output output = Shell("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done");
  EXPECT_THAT(output.result.error_output, HasSubstr("line 1999\n"));
  EXPECT_LE(output.result.error_output.size(), 4096u);
  EXPECT_TRUE(output.lines.empty());
}

TEST(SubprocessTest, PassesOnlyTheGivenEnvironment) {
  setenv("BRAID_TEST_SECRET", "x", 1);
  const Output output = Shell("echo \"${BRAID_TEST_SECRET-none} $GIVEN\"", {"GIVEN=yes"});
  EXPECT_THAT(output.lines, ElementsAre("none yes"));
}

// As braidd, which blocks the signals that it waits for before it starts any thread.
TEST(SubprocessTest, StartsWithNoSignalBlockedOrIgnored) {
  sigset_t blocked, before;
  sigfillset(&blocked);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto handler = signal(SIGUSR1, SIG_IGN);
  const Output output = Shell("grep -E '^Sig(Blk|Ign)' /proc/self/status");
  signal(SIGUSR1, handler);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_THAT(output.lines, ElementsAre("SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"));
}

TEST(SubprocessTest, InheritsNoDescriptor) {
  const int leaky = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  const Output output =
      Shell(absl::StrCat("[ -e /proc/$$/fd/1 ] && [ ! -e /proc/$$/fd/", leaky, " ]"));
  close(leaky);
  EXPECT_EQ(output.result.exit_code, 0);
}

TEST(SubprocessTest, HasNoStandardInput) {
  EXPECT_THAT(Shell("cat; echo end").lines, ElementsAre("end"));
}

TEST(SubprocessTest, ReportsTheSignalThatEndedIt) {
  EXPECT_EQ(Shell("kill -SEGV $$").result.exit_code, 128 + 11);
}

TEST(SubprocessTest, KillsTheChildWhenTheReceiverStops) {
  int lines = 0;
  const SubprocessResult result =
      RunSubprocess(
          {.arguments = {"/bin/sh", "-c", "while :; do echo x; done"}},
          [&](std::string_view) { return ++lines < 3; }, [] { return false; })
          .value();
  EXPECT_TRUE(result.killed);
  EXPECT_EQ(lines, 3);
  EXPECT_EQ(result.exit_code, 128 + 9);
}

TEST(SubprocessTest, KillsASilentChildWhenCancelled) {
  const auto start = std::chrono::steady_clock::now();
  const SubprocessResult result =
      RunSubprocess(
          {.arguments = {"sleep", "60"}}, [](std::string_view) { return true; },
          [&] { return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(20); })
          .value();
  EXPECT_TRUE(result.killed);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(SubprocessTest, NamesAMissingProgram) {
  const absl::Status status = RunSubprocess(
                                  {.arguments = {"/no/such/program"}},
                                  [](std::string_view) { return true; }, [] { return false; })
                                  .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/program"));
}

TEST(SubprocessTest, NamesAFileThatIsNotAProgram) {
  const std::string path = testing::TempDir() + "/not-a-program-" + std::to_string(getpid());
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("neither ELF nor script", file);
  std::fclose(file);
  chmod(path.c_str(), 0755);
  const absl::Status status =
      RunSubprocess(
          {.arguments = {path}}, [](std::string_view) { return true; }, [] { return false; })
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Exec format error"));
}

TEST(SubprocessTest, FindsRelativePathsFromTheWorkingDirectory) {
  const std::filesystem::path shell = std::filesystem::relative("/bin/sh");
  EXPECT_TRUE(std::filesystem::path(FindProgram(shell.string()).value_or("")).is_absolute());
  EXPECT_TRUE(RunSubprocess(
                  {.arguments = {shell.string(), "-c", "true"}},
                  [](std::string_view) { return true; }, [] { return false; })
                  .ok());
}

TEST(SubprocessTest, FindsProgramsInPath) {
  EXPECT_THAT(FindProgram("sh").value_or(""), testing::EndsWith("/sh"));
  EXPECT_FALSE(FindProgram("no-such-program-anywhere").has_value());
}

TEST(TrainerEnvironmentTest, KeepsSettingsAndDropsSecretsAndRanks) {
  EXPECT_THAT(
      AllowedEnvironment({"PATH=/bin", "AWS_SECRET_ACCESS_KEY=x", "OMPI_MCA_btl=self",
                          "OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=1", "LC_ALL=C", "PATHOLOGY=1",
                          "OPENBLAS_CORETYPE=Haswell"}),
      ElementsAre("PATH=/bin", "OMPI_MCA_btl=self", "LC_ALL=C", "OPENBLAS_CORETYPE=Haswell"));
}

}  // namespace subprocess_test
}  // namespace braid
