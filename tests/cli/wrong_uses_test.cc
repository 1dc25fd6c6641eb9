// Wrong uses of all programs, one per line of wrong_uses.txt: each exits with the documented code
// and prints one message that names the culprit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "server/listening_sockets.h"
#include "tests/program.h"

namespace braid {
namespace wrong_uses_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr size_t kMaxMessageBytes = 300;
constexpr int kRowsAtOnce = 2;
constexpr size_t kMinRows = 150;

// Names that only a developer of braid or of a library knows, and signs of a crash.
constexpr const char* kInternals[] = {
    "ipv4:",    "UNAVAILABLE",
    "grpc",     "failed to connect to all addresses",
    "protobuf", "braid.v1.",
    "c10::",    "torch::",
    "std::",    "CLI::",
    "JOB_",     "RUN_S",
    "RUN_R",    "RUN_F",
    "RUN_Q",    "_UNSPECIFIED",
    "json.exc", "nlohmann",
    "what()",   "filesystem error",
    "1797693",  "terminate called",
    "Aborted",  "    @ ",
};

// A line of the table: "EXIT | [NAME=VALUE...] PROGRAM ARGUMENT... [< FILE] [> FILE] | PART ; ...".
// Arguments are split at spaces; '...' quotes, \xNN is a byte, and BUSY is an address in use.
// "EXIT+" permits lines of progress before the message.
struct WrongUse {
  std::string line;
  int exit_code = 0;
  bool after_progress = false;
  std::vector<std::string> variables, arguments, parts;
  std::string input, output;
};

std::vector<std::string> SplitWords(const std::string& text) {
  std::vector<std::string> words;
  bool in_word = false, quoted = false;
  for (const char c : text) {
    if (c == '\'') {
      quoted = !quoted;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (c == ' ' && !quoted) {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      in_word = true;
      words.back() += c;
    }
  }
  for (std::string& word : words) {
    std::string bytes;
    if (absl::CUnescape(word, &bytes)) word = bytes;
  }
  return words;
}

WrongUse ParseRow(const std::string& line) {
  const std::vector<std::string> columns = absl::StrSplit(line, " | ");
  EXPECT_EQ(columns.size(), 3u) << line;
  WrongUse row;
  row.line = line;
  row.exit_code = std::atoi(columns[0].c_str());
  row.after_progress = columns[0].find('+') != std::string::npos;
  row.parts = absl::StrSplit(columns[2], " ; ");
  const std::vector<std::string> words = SplitWords(columns[1]);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "<") {
      row.input = words[++i];
    } else if (words[i] == ">") {
      row.output = words[++i];
    } else if (row.arguments.empty() && words[i].find('=') != std::string::npos) {
      row.variables.push_back(words[i]);
    } else {
      row.arguments.push_back(words[i]);
    }
  }
  return row;
}

std::vector<WrongUse> ReadTable() {
  std::vector<WrongUse> rows;
  std::ifstream table(BRAID_TESTS_DIR "/cli/wrong_uses.txt");
  for (std::string line; std::getline(table, line);) {
    if (!line.empty() && line[0] != '#') rows.push_back(ParseRow(line));
  }
  return rows;
}

void WriteFile(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string PseudoRandomBytes(size_t count) {
  std::string bytes;
  for (unsigned state = 1; bytes.size() < count; state = state * 1664525 + 1013904223) {
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

// Enough varied text for a vocabulary of 300 pieces and several instances.
std::string CorpusText() {
  std::ostringstream lines;
  const std::string letters = PseudoRandomBytes(200 * 40 * 5);
  size_t next = 0;
  for (int document = 0; document < 200; ++document) {
    lines << "{\"text\": \"";
    for (int word = 0; word < 40; ++word) {
      for (int letter = 0; letter < 5; ++letter) {
        lines << static_cast<char>('a' + static_cast<unsigned char>(letters[next++]) % 26);
      }
      lines << ' ';
    }
    lines << "\", \"domain\": \"" << (document % 2 == 0 ? "even" : "odd") << "\"}\n";
  }
  return lines.str();
}

class WrongUsesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "wrong.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    WriteInputs();
    ASSERT_NO_FATAL_FAILURE(PrepareHome());
    DamageCopies();
  }
  void TearDown() override { EXPECT_TRUE(RemoveDirectory(root_)); }

  void WriteInputs() {
    WriteFile(root_ / "corpus.jsonl", CorpusText());
    WriteFile(root_ / "empty", "");
    WriteFile(root_ / "empty.jsonl", "");
    WriteFile(root_ / "binary", PseudoRandomBytes(4096));
    WriteFile(root_ / "binary.jsonl", PseudoRandomBytes(4096));
    WriteFile(root_ / "text.jsonl.gz", "not compressed\n");
    WriteFile(root_ / "text.jsonl.zst", "not compressed\n");
    WriteFile(root_ / "text", "some plain words\n");
    WriteFile(root_ / "no_text.jsonl", "{\"body\": \"x\"}\n");
    WriteFile(root_ / "rejects.jsonl", "not json\n[]\n");
    WriteFile(root_ / "json", "{\"a\": 1}\n");
    WriteFile(root_ / "unknown.textproto", "nieghbors { k: 3 }\n");
    WriteFile(root_ / "wrong_type.textproto", "seed: \"x\"\n");
    WriteFile(root_ / "unclosed.textproto", "neighbors { k: 3\n");
    WriteFile(root_ / "prompts.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n");
    WriteFile(root_ / "pairs.jsonl",
              "{\"prompt\": \"a\", \"completion\": \"b\"}\n"
              "{\"prompt\": \"c\", \"completion\": \"d\"}\n");
    WriteFile(root_ / "twice.textproto", "seed: 1\nseed: 2\n");
    fs::create_directory(root_ / "dir");
    EXPECT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
    WriteFile(root_ / "old/file", "");
    WriteFile(root_ / "private.token", "no token\n");
    fs::permissions(root_ / "private.token", fs::perms::owner_read);
  }

  // Makes job-000001, run-000001, and job-000002, which has failed.
  void PrepareHome() {
    TestProgram job({BRAID_BIN_DIR "/braid", "submit", "corpus.jsonl", "--wait", "--vocab-size",
                     "300", "--sequence-length", "64"},
                    Options());
    ASSERT_EQ(job.Wait(), 0) << job.err();
    TestProgram failed({BRAID_BIN_DIR "/braid", "submit", "rejects.jsonl", "--wait"}, Options());
    ASSERT_EQ(failed.Wait(), 1) << failed.err();
    std::vector<std::string> train = {BRAID_BIN_DIR "/braid", "train", "--data", "job-000001"};
    train.insert(train.end(), {"--steps", "2", "--threads", "1", "--wait"});
    for (const char* setting : {"d_model=16", "num_layers=1", "num_heads=2", "d_ff=32"}) {
      train.insert(train.end(), {"--set", std::string("model.") + setting});
    }
    TestProgram run(train, Options());
    ASSERT_EQ(run.Wait(), 0) << run.err();
  }

  void DamageCopies() {
    const fs::path run = root_ / "home/runs/run-000001";
    const auto copy = [&](const fs::path& from, const char* name) {
      // The supervisor of the run that has ended may still replace files.
      std::error_code error;
      for (int attempt = 0; attempt < 100; ++attempt) {
        fs::copy(from, root_ / name,
                 fs::copy_options::recursive | fs::copy_options::copy_symlinks |
                     fs::copy_options::overwrite_existing,
                 error);
        if (!error) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      EXPECT_FALSE(error) << from << ": " << error.message();
      return root_ / name;
    };
    WriteFile(copy(run, "garbled_run") / "run.textproto", "model { d_model: x }");
    for (const auto& entry : fs::directory_iterator(root_ / "home/store")) {
      if (!entry.path().filename().string().starts_with("pack-")) continue;
      WriteFile(copy(entry.path(), "garbled_dataset") / "dataset.json", "{");
    }
    for (const auto& entry : fs::recursive_directory_iterator(root_ / "home/store")) {
      if (entry.path().filename() == "tokenizer.model") copy(entry.path(), "damaged.model");
    }
    fs::resize_file(root_ / "damaged.model", fs::file_size(root_ / "damaged.model") / 2);
  }

  TestProgramOptions Options() const {
    return {.variables = {"BRAID_HOME=home", "HOME=" + root_.string(), "BRAID_TOKEN=",
                          // Saves each program from executing itself again with another BLAS core.
                          "BRAID_BLAS_CHOSEN=1", "OMP_WAIT_POLICY=passive"},
            .directory = root_};
  }

  fs::path InRoot(const std::string& name) const { return root_ / name; }

  void Check(const WrongUse& row) const {
    SCOPED_TRACE(row.line);
    const std::string& program = row.arguments[0];
    std::vector<std::string> arguments = row.arguments;
    arguments[0] = BRAID_BIN_DIR "/" + program;
    std::ranges::replace(arguments, "BUSY", "127.0.0.1:" + std::to_string(busy_.port()));
    TestProgramOptions options = Options();
    options.variables.insert(options.variables.begin(), row.variables.begin(), row.variables.end());
    if (!row.input.empty()) options.input = InRoot(row.input);
    if (!row.output.empty()) options.output = InRoot(row.output);
    TestProgram use(arguments, options);
    const int exit_code = use.Wait();
    const std::string errors = use.err();
    EXPECT_EQ(exit_code, row.exit_code) << errors;
    if (row.output.empty()) {
      EXPECT_EQ(use.out(), "");
    }
    const size_t last_line = errors.rfind("\n" + program + ": ");
    const size_t begin = row.after_progress && last_line != std::string::npos ? last_line + 1 : 0;
    CheckMessage(row, program, errors.substr(begin));
  }

  static void CheckMessage(const WrongUse& row, const std::string& program,
                           const std::string& message) {
    EXPECT_THAT(message, StartsWith(program + ": "));
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
    EXPECT_LE(message.size(), kMaxMessageBytes) << message;
    const std::string text = message.substr(std::min(message.size(), program.size() + 2));
    const bool capitalized =
        text.size() > 1 && absl::ascii_isupper(text[0]) && absl::ascii_islower(text[1]);
    EXPECT_FALSE(capitalized) << message;
    for (const std::string& part : row.parts) EXPECT_THAT(message, HasSubstr(part));
    for (const char* internal : kInternals) EXPECT_THAT(message, Not(HasSubstr(internal)));
  }

  fs::path root_;
  const ListeningSockets busy_ = ListeningSockets::Open("127.0.0.1:0").value();
};

TEST_F(WrongUsesTest, NameTheCulpritInOneMessage) {
  const std::vector<WrongUse> rows = ReadTable();
  EXPECT_GE(rows.size(), kMinRows);
  std::atomic<size_t> next = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < kRowsAtOnce; ++i) {
    workers.emplace_back([&] {
      for (size_t row; (row = next++) < rows.size();) Check(rows[row]);
    });
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace wrong_uses_test
}  // namespace braid
