// The texts that are generated from the command table and from the .proto files: help, completion
// scripts and manual pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "braid/v1/conversion.pb.h"
#include "braid/v1/training.pb.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/field_flags.h"
#include "cli/manual_page.h"
#include "cli/shell_completion.h"
#include "proto/field_help.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace help_test {

using testing::HasSubstr;
using testing::MatchesRegex;

class HelpTest : public testing::Test {
 protected:
  HelpTest() { AddCommandTable(program_); }

  static bool IsVisible(const CLI::App* app) { return !app->get_group().empty(); }

  // The visible commands below `app`, each with the words that name it.
  static void Collect(const CLI::App& app, const std::vector<std::string>& path,
                      std::vector<std::pair<std::vector<std::string>, const CLI::App*>>* commands) {
    for (const CLI::App* child : app.get_subcommands(IsVisible)) {
      std::vector<std::string> names = path;
      names.push_back(child->get_name());
      commands->emplace_back(names, child);
      Collect(*child, names, commands);
    }
  }

  std::vector<std::pair<std::vector<std::string>, const CLI::App*>> Commands() const {
    std::vector<std::pair<std::vector<std::string>, const CLI::App*>> commands;
    const CLI::App& root = program_.app;
    commands.emplace_back(std::vector<std::string>(), &root);
    Collect(root, {}, &commands);
    return commands;
  }

  const CLI::App& Command(const std::string& name) const {
    return *const_cast<CommandLine&>(program_).app.get_subcommand(name);
  }

  CommandLine program_;
  const ScratchDirectory scratch_;
};

std::string Output(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t size; (size = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), size);
  }
  pclose(pipe);
  return output;
}

TEST(FieldCommentTest, SplitsSummaryAndDefault) {
  const FieldHelp plain = ParseFieldComment(" Peak learning rate. Default 2e-4.\n");
  EXPECT_EQ(plain.summary, "Peak learning rate");
  EXPECT_EQ(plain.default_value, "2e-4");
  const FieldHelp wrapped = ParseFieldComment(
      " Steps between checks, such as 1.5 of\n them. Longer text. Default: one pass over the\n"
      " data; a negative value disables them.\n");
  EXPECT_EQ(wrapped.summary, "Steps between checks, such as 1.5 of them");
  EXPECT_EQ(wrapped.default_value, "one pass over the data");
  EXPECT_EQ(ParseFieldComment(" Name\n").summary, "Name");
  EXPECT_EQ(ParseFieldComment("").summary, "");
}

TEST(FieldHelpTest, FindsNestedFieldsAndRejectsUnknownOnes) {
  const auto help = FindFieldHelp("braid.v1.RunSpec", "model.routing.num_experts");
  ASSERT_TRUE(help.ok()) << help.status();
  EXPECT_THAT(help->summary, HasSubstr("Experts per layer"));
  EXPECT_EQ(help->default_value, "1");
  EXPECT_FALSE(FindFieldHelp("braid.v1.RunSpec", "model.nothing").ok());
  EXPECT_FALSE(FindFieldHelp("braid.v1.RunSpec", "seed.seed").ok());
  EXPECT_FALSE(FindFieldHelp("braid.v1.Nothing", "seed").ok());
}

TEST(FieldFlagsTest, SetTheFieldsWhoseFlagsWereGiven) {
  CLI::App app;
  FieldFlags fields("braid.v1.RunSpec");
  fields.Add(&app, "--learning-rate", "optimizer.learning_rate");
  fields.Add(&app, "--seed", "seed");
  fields.Add(&app, "--name", "name");
  fields.Add(&app, "--no-tensorboard", "without_tensorboard");
  fields.Add(&app, "--steps", "num_steps");
  app.parse("--learning-rate 3e-4 --seed 0 --no-tensorboard --name 'a \"b\\c'");
  v1::RunSpec spec;
  spec.set_seed(7);
  spec.set_num_steps(5);
  ASSERT_TRUE(fields.Apply(&spec).ok());
  EXPECT_EQ(spec.optimizer().learning_rate(), 3e-4);
  EXPECT_EQ(spec.seed(), 0u);
  EXPECT_TRUE(spec.without_tensorboard());
  EXPECT_EQ(spec.num_steps(), 5);
  EXPECT_FALSE(spec.has_batch());
}

TEST(FieldFlagsTest, EnumsAreShownAndTakenAsWordsInAnyCase) {
  CLI::App app;
  FieldFlags fields("braid.v1.ExpertSplit", std::nullopt);
  const CLI::Option* const gate = fields.Add(&app, "--gate", "gate");
  fields.Add(&app, "--split", "method");
  fields.Add(&app, "--layers", "layers")->delimiter(',');
  EXPECT_THAT(gate->get_type_name(), HasSubstr("linear|frozen|key-mean|"));
  EXPECT_THAT(gate->get_description(), HasSubstr("(default: key-mean)"));
  EXPECT_THAT(gate->get_description(), testing::Not(HasSubstr("[")));
  for (const char* const words : {"--gate key-mean --split keys", "--gate KEY_MEAN --split KEYS",
                                  "--gate Key-Mean --split Keys"}) {
    app.parse(std::string(words) + " --layers=-2,1");
    v1::ExpertSplit split;
    ASSERT_TRUE(fields.Apply(&split).ok());
    EXPECT_EQ(split.gate(), v1::TokenRouting::KEY_MEAN);
    EXPECT_EQ(split.method(), v1::ExpertSplit::KEYS);
    EXPECT_EQ(split.layers(0), -2);
  }
}

// The paragraphs of a footer are wrapped by hand.
TEST_F(HelpTest, LinesOfFootersAreFilled) {
  constexpr size_t kFilledColumns = 80;
  for (const auto& [names, command] : Commands()) {
    std::string before;
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(command->get_footer(), '\n'))) {
      const bool continues = !before.empty() && before[0] != ' ' && before.back() != ':' &&
                             !line.empty() && line[0] != ' ';
      const size_t with_word = before.size() + 1 + line.substr(0, line.find(' ')).size();
      EXPECT_TRUE(!continues || with_word >= kFilledColumns)
          << absl::StrJoin(names, " ") << ": " << before << "\n"
          << line;
      before = line;
    }
  }
}

// An alias ends its help with the path of its field in brackets.
TEST_F(HelpTest, AliasFlagsShowTheSentencesOfTheirFields) {
  const std::vector<std::pair<const CLI::App*, std::string>> commands = {
      {&Command("train"), "braid.v1.RunSpec"},
      {&Command("submit"), "braid.v1.CorpusSpec"},
      {const_cast<CLI::App&>(Command("corpus")).get_subcommand("describe"), "braid.v1.CorpusSpec"},
      {&Command("reproduce"), "braid.v1.CorpusSpec"}};
  std::set<std::string> paths;
  for (const auto& [command, message] : commands) {
    for (const CLI::Option* option : command->get_options()) {
      const std::string text = option->get_description();
      const size_t bracket = text.rfind('[');
      if (!absl::EndsWith(text, "]") || bracket == text.npos) continue;
      const std::string path = text.substr(bracket + 1, text.size() - bracket - 2);
      const auto help = FindFieldHelp(message, path);
      ASSERT_TRUE(help.ok()) << option->get_name() << ": " << help.status();
      paths.insert(path);
      // These take the id of a job or lists of hosts, and describe that form.
      if (path == "dataset_dir" || path == "launch.hosts") continue;
      EXPECT_TRUE(absl::StartsWith(text, help->summary)) << text;
      const auto* const values = help->field->enum_type();
      const bool is_value =
          values != nullptr && values->FindValueByName(help->default_value) != nullptr;
      EXPECT_THAT(text, HasSubstr(is_value ? FlagWord(help->default_value) : help->default_value));
    }
  }
  for (const char* path :
       {"optimizer.learning_rate", "batch.global_batch_size", "num_steps", "world_size",
        "model.routing.num_experts", "launch.slurm.nodes", "launch.kubernetes.image", "order",
        "tokenizer.vocab_size", "pack.domain_clusters", "ingest.split_bytes", "paths"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

TEST_F(HelpTest, EveryCommandAndOptionIsDescribed) {
  for (const auto& [path, command] : Commands()) {
    const std::string description = command->get_description();
    ASSERT_FALSE(description.empty()) << command->get_name();
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(description[0]))) << description;
    for (const CLI::Option* option : command->get_options()) {
      const std::string text = option->get_description();
      ASSERT_FALSE(text.empty()) << command->get_name() << " " << option->get_name();
      EXPECT_FALSE(std::islower(static_cast<unsigned char>(text[0]))) << text;
    }
    if (command->get_subcommands(IsVisible).empty()) {
      EXPECT_THAT(command->get_footer(), HasSubstr("Example")) << command->get_name();
    }
  }
}

TEST_F(HelpTest, CompletionScriptsHaveEveryCommandAndOption) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const auto script = CompletionScript(program_.app, shell);
    ASSERT_TRUE(script.ok()) << script.status();
    for (const auto& [path, command] : Commands()) {
      std::string words = "braid";
      for (const std::string& word : path) absl::StrAppend(&words, " ", word);
      EXPECT_THAT(*script, HasSubstr(absl::StrCat("\"", words, "\""))) << shell;
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames()) {
          EXPECT_THAT(*script, HasSubstr((shell == "fish" ? " -l " : "--") + name)) << shell;
        }
      }
    }
    const std::string file = scratch_ / ("completion." + shell);
    PutFile(file, *script);
    EXPECT_EQ(Output(absl::StrCat("! command -v ", shell, " > /dev/null || ", shell, " -n ", file,
                                  " 2>&1")),
              "");
  }
  EXPECT_FALSE(CompletionScript(program_.app, "tcsh").ok());
}

TEST_F(HelpTest, BashCompletesCommandsAndOptions) {
  const std::string file = scratch_ / "braid.bash";
  PutFile(file, *CompletionScript(program_.app, "bash"));
  const auto complete = [&](const std::string& words, int position) {
    return Output(absl::StrCat("bash -c '. ", file, "; COMP_WORDS=(", words,
                               "); COMP_CWORD=", position, "; _braid; echo ${COMPREPLY[*]}'"));
  };
  EXPECT_EQ(complete("braid tra", 1), "train\n");
  EXPECT_EQ(complete("braid corpus d", 2), "describe\n");
  EXPECT_EQ(complete("braid --json train --learn", 3), "--learning-rate\n");
  EXPECT_EQ(complete("braid submit --ho", 2), "--home\n");
}

TEST_F(HelpTest, ManualPagesAreValidRoff) {
  const bool has_groff = Output("command -v groff") != "";
  for (const auto& [path, command] : Commands()) {
    const auto page = ManualPage(program_.app, path);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_THAT(*page, testing::StartsWith(".TH \"BRAID"));
    for (const char* section : {"\"NAME\"", "\"SYNOPSIS\"", "\"OPTIONS\""}) {
      EXPECT_THAT(*page, HasSubstr(section));
    }
    if (!has_groff) continue;
    const std::string file = scratch_ / "braid.1";
    PutFile(file, *page);
    EXPECT_EQ(Output("groff -man -Tutf8 -ww -z " + file + " 2>&1"), "") << *page;
  }
  EXPECT_FALSE(ManualPage(program_.app, std::vector<std::string>{"nothing"}).ok());
}

TEST_F(HelpTest, ManualPagesAreWrittenForEveryCommand) {
  const std::filesystem::path& directory = scratch_.path();
  ASSERT_TRUE(WriteManualPages(program_.app, directory, {}).ok());
  size_t num_pages = 0;
  for (const auto& [path, command] : Commands()) {
    std::string name = "braid";
    for (const std::string& word : path) absl::StrAppend(&name, "-", word);
    EXPECT_TRUE(std::filesystem::exists(directory / (name + ".1"))) << name;
    ++num_pages;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), num_pages);
  EXPECT_FALSE(WriteManualPages(program_.app, directory / "missing", {}).ok());
}

TEST(HelpWidthTest, HelpIsWrappedAtTheColumnsOfTheEnvironment) {
  for (const size_t columns : {44, 60, 80}) {
    const std::string help =
        Output(absl::StrCat("COLUMNS=", columns, " " BRAID_BIN_DIR "/braid reproduce --help"));
    EXPECT_THAT(help, HasSubstr("Examples:\n  braid reproduce\n"));
    size_t longest = 0;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(help, '\n'))) {
      // Names of options and examples have no place to break.
      if (absl::StartsWith(line, "  -") || absl::StartsWith(line, "  braid")) continue;
      EXPECT_LE(line.size(), columns) << line;
      longest = std::max(longest, line.size());
    }
    EXPECT_GT(longest + 12, columns) << "lines are filled";
  }
}

TEST(ManualPageTest, BraiddHasOne) {
  EXPECT_THAT(Output("'" BRAID_BIN_DIR "/braidd' --man"),
              testing::AllOf(testing::StartsWith(".TH \"BRAIDD\" 1"), HasSubstr("\\-\\-listen")));
}

TEST(VersionTest, HasTheVersionAndTheCommit) {
  for (const std::string program : {"braid", "braidd"}) {
    EXPECT_THAT(Output("'" BRAID_BIN_DIR "/" + program + "' --version"),
                MatchesRegex(program + " [0-9.]+ \\([0-9a-z]+\\)\n"));
  }
}

}  // namespace help_test
}  // namespace braid
