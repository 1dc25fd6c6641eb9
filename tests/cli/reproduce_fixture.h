// What the tests of `braid reproduce` share: text of a few domains, and the program in a home of
// its own.
#ifndef BRAID_TESTS_CLI_REPRODUCE_FIXTURE_H_
#define BRAID_TESTS_CLI_REPRODUCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"
#include "tests/program.h"

namespace braid {
namespace reproduce_fixture {

namespace fs = std::filesystem;
using nlohmann::json;

// Words of one domain, frequent ones first.
class Vocabulary {
 public:
  Vocabulary(char first_letter, std::mt19937_64& random) {
    for (int i = 0; i < 600; ++i) {
      std::string word(1, first_letter);
      for (int length = 2 + i % 5; length > 0; --length) word += "aeioulnrst"[random() % 10];
      words_.push_back(word);
    }
  }
  const std::string& Draw(std::mt19937_64& random) const {
    const double uniform = std::uniform_real_distribution<double>(0, 1)(random);
    return words_[static_cast<size_t>(uniform * uniform * static_cast<double>(words_.size()))];
  }

 private:
  std::vector<std::string> words_;
};

inline std::string Document(const Vocabulary& vocabulary, size_t bytes, std::mt19937_64& random) {
  std::string text;
  while (text.size() < bytes) {
    text += vocabulary.Draw(random);
    text += random() % 12 == 0 ? ".\n" : " ";
  }
  return text;
}

// Three domains of different sizes, `bytes` in all; `labeled` records name them.
inline fs::path WriteCorpus(const fs::path& path, size_t bytes, bool labeled) {
  std::mt19937_64 random(1);
  const std::vector<Vocabulary> vocabularies = {{'b', random}, {'k', random}, {'w', random}};
  const std::vector<std::string> names = {"letters", "kitchen", "weather"};
  std::ofstream file(path, std::ios::binary);
  for (size_t written = 0; written < bytes;) {
    const size_t domain = std::min<size_t>(random() % 5, 2);
    json record = {{"text", Document(vocabularies[domain], 200 + random() % 500, random)}};
    if (labeled) record["domain"] = names[domain];
    const std::string line = record.dump() + "\n";
    file << line;
    written += line.size();
  }
  return path;
}

class ReproduceFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "reproduce_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { EXPECT_TRUE(RemoveDirectory(root_)); }

  std::unique_ptr<TestProgram> Start(Arguments arguments) const {
    arguments.insert(arguments.begin(), {BRAID_BIN_DIR "/braid", "--home", home()});
    return std::make_unique<TestProgram>(
        arguments, TestProgramOptions{.output = root_ / "out", .errors = root_ / "err"});
  }

  static Outcome Finish(TestProgram& program) {
    const int exit_code = program.Wait(std::chrono::seconds(600));
    return {exit_code, program.out(), program.err()};
  }

  Outcome Run(const Arguments& arguments) const { return Finish(*Start(arguments)); }

  // What `braid runs` or `braid jobs` lists.
  int NumOf(const std::string& kind) const {
    const Outcome listed = Run({kind, "--json"});
    const json all = json::parse(listed.output, nullptr, /*allow_exceptions=*/false);
    return all.contains(kind) ? static_cast<int>(all[kind].size()) : 0;
  }
  int NumRuns() const { return NumOf("runs"); }

  void WaitForRun(const std::string& id) const {
    const auto exists = [&] { return fs::exists(home() + "/runs/" + id); };
    ASSERT_TRUE(WaitUntil(exists, std::chrono::seconds(60))) << Contents(root_ / "err");
  }

  std::string home() const { return (root_ / "home").string(); }

  fs::path root_;
};

}  // namespace reproduce_fixture
}  // namespace braid

#endif  // BRAID_TESTS_CLI_REPRODUCE_FIXTURE_H_
