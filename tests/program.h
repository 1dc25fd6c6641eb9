// Programs that tests start, wait for with a deadline, read the output of, and kill.
//
//   TestProgram server({BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0"});
//   const std::string address = server.WaitForOutput(" at ", ", state");
//   ...
//   server.Signal(SIGTERM);
//   EXPECT_EQ(server.Wait(), 0) << server.err();
#ifndef BRAID_TESTS_PROGRAM_H_
#define BRAID_TESTS_PROGRAM_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

struct TestProgramOptions {
  // "NAME=VALUE", in addition to the environment of the test.
  std::vector<std::string> variables = {};
  // The working directory; the one of the test by default.
  std::filesystem::path directory = {};
  std::filesystem::path input = "/dev/null";
  // Files for standard output and standard error, which may be the same file. By default files in a
  // temporary directory, which is removed with the TestProgram.
  std::filesystem::path output = {}, errors = {};
  // RLIMIT_FSIZE: a write beyond it fails with SIGXFSZ or EFBIG.
  std::optional<uint64_t> max_file_bytes = {};
};

// A child process. It is killed when its TestProgram is destroyed and when the thread that started
// it ends, so that a test that fails leaves no process. Not thread-safe, except pid() and Signal().
class TestProgram {
 public:
  // Starts `arguments[0]`, a path. A program that cannot be executed ends with exit code 127.
  explicit TestProgram(std::vector<std::string> arguments, TestProgramOptions options = {});
  ~TestProgram();
  TestProgram(const TestProgram&) = delete;
  TestProgram& operator=(const TestProgram&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Returns whether the program has not ended yet.
  bool IsRunning();
  // Blocks until the program has ended. Returns its exit code, or 128 + the signal that ended it. A
  // program that has not ended after `limit` is killed, which is reported on standard error.
  int Wait(std::chrono::seconds limit = std::chrono::seconds(120));
  // Sends SIGKILL and blocks until the program has ended.
  void Kill();

  // What it has written so far.
  std::string out() const;
  std::string err() const;
  // Blocks until the output has `before` and later `after`, and returns the text between them; ""
  // when the program ends without it, or after `limit`.
  std::string WaitForOutput(std::string_view before, std::string_view after,
                            std::chrono::seconds limit = std::chrono::seconds(30));

 private:
  std::string name_;
  std::filesystem::path scratch_;  // empty when the caller has named both files
  std::filesystem::path output_, errors_;
  pid_t pid_ = 0;
  std::optional<int> exit_code_;  // set once the process has been waited for
};

// Returns the text of `text` between the first `before` and the next `after`; "" if there is none.
std::string TextBetween(std::string_view text, std::string_view before, std::string_view after);

// Evaluates `condition` every few milliseconds until it is true, for at most `limit`. Returns
// whether it became true.
bool WaitUntil(const std::function<bool()>& condition,
               std::chrono::milliseconds limit = std::chrono::seconds(30));

// Deletes a directory with its content, again while other processes change it: a supervisor writes
// its last status after `braid train --wait` has returned. Returns whether it is gone within 30 s.
bool RemoveDirectory(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_TESTS_PROGRAM_H_
