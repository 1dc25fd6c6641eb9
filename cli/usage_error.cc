#include "cli/usage_error.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/nearest_word.h"
#include "cli/arguments.h"

namespace braid {
namespace {

// The deepest chosen command.
struct Chosen {
  std::vector<const CLI::App*> apps;  // from the program to the command
  std::string path;                   // "braid eval perplexity"

  const CLI::App& command() const { return *apps.back(); }
};

Chosen ChosenCommand(const CLI::App& app, const std::string& program) {
  Chosen chosen{{&app}, program};
  while (!chosen.command().get_subcommands().empty()) {
    chosen.apps.push_back(chosen.command().get_subcommands().front());
    absl::StrAppend(&chosen.path, " ", chosen.command().get_name());
  }
  return chosen;
}

bool LooksLikeOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word != "--";
}

std::string UnknownOption(const Chosen& chosen, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (auto app = chosen.apps.rbegin(); app != chosen.apps.rend(); ++app) {
    for (const CLI::Option* option : (*app)->get_options()) {
      for (const std::string& long_name : option->get_lnames()) known.push_back("--" + long_name);
    }
  }
  return absl::StrCat("unknown option \"", name, "\"", DidYouMean(name, known));
}

std::string NoCommand(const Chosen& chosen, const std::vector<std::string>& left) {
  std::vector<std::string> names;
  for (const CLI::App* command : chosen.command().get_subcommands(nullptr)) {
    names.push_back(command->get_name());
  }
  if (!left.empty()) {
    return absl::StrCat("unknown command \"", left.front(), "\"", DidYouMean(left.front(), names));
  }
  constexpr size_t kShortList = 6;
  return absl::StrCat("got no command, expected ",
                      names.size() > kShortList ? "one" : ListOfChoices(names));
}

// Returns the text of `message` before `marker`, if it contains it.
std::optional<std::string> Before(const std::string& message, const std::string& marker) {
  const size_t end = message.find(marker);
  if (end == std::string::npos) return std::nullopt;
  return message.substr(0, end);
}

std::string ExpectedValue(const Chosen& chosen, const std::string& name) {
  for (const CLI::App* app : chosen.apps) {
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option == nullptr) continue;
    const std::string type = option->get_type_name();
    if (option->get_expected_max() == 0) return "no value";
    if (type == "INT" || type == "UINT") return "an integer";
    if (type == "FLOAT") return "a number";
    return absl::StrCat("a value (", type, ")");
  }
  return "another value";
}

// Rephrases the messages of CLI11 that do not say what was expected.
std::string Rephrased(const Chosen& chosen, const std::string& message) {
  if (const auto name = Before(message, ": 1 required ")) {
    return absl::StrCat(*name, ": got no value, expected ", ExpectedValue(chosen, *name));
  }
  if (const auto name = Before(message, ": At Most 1 required but received ")) {
    return absl::StrCat(*name, ": got several values, expected one");
  }
  if (const auto name = Before(message, " excludes ")) {
    return absl::StrCat(*name, " and ", message.substr(name->size() + 10), " exclude each other");
  }
  constexpr std::string_view kConversion = "Could not convert: ";
  if (message.starts_with(kConversion)) {
    const std::string assignment = message.substr(kConversion.size());
    const std::string name = assignment.substr(0, assignment.find(" = "));
    return absl::StrCat(name, ": got \"",
                        assignment.substr(std::min(assignment.size(), name.size() + 3)),
                        "\", expected ", ExpectedValue(chosen, name));
  }
  return message;
}

std::string Problem(const Chosen& chosen, const std::vector<std::string>& left,
                    const CLI::ParseError& error) {
  // A mistyped option also makes a required one missing, and its value looks like an argument.
  const bool unexpected = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                          dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!unexpected) return Rephrased(chosen, error.what());
  for (const std::string& word : left) {
    if (LooksLikeOption(word)) return UnknownOption(chosen, word);
  }
  if (!chosen.command().get_subcommands(nullptr).empty()) return NoCommand(chosen, left);
  if (left.empty()) return Rephrased(chosen, error.what());
  return absl::StrCat("unexpected argument \"", left.front(), "\"");
}

std::string WithReference(const Chosen& chosen, const std::string& problem) {
  return absl::StrCat(problem, "; see '", chosen.path, " --help'");
}

}  // namespace

std::string UsageErrorText(const CLI::App& app, const std::string& program,
                           const CLI::ParseError& error) {
  const Chosen chosen = ChosenCommand(app, program);
  return WithReference(chosen, Problem(chosen, app.remaining(/*recurse=*/true), error));
}

std::string FlagErrorText(const CLI::App& app, const std::string& program, int argc, char** argv) {
  const Chosen chosen = ChosenCommand(app, program);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string name = word.substr(0, word.find('='));
    for (const CLI::App* at : chosen.apps) {
      const CLI::Option* option = at->get_option_no_throw(name);
      if (option == nullptr || name == word || option->get_expected_max() != 0) continue;
      return WithReference(chosen, absl::StrCat(name, ": got \"", word.substr(name.size() + 1),
                                                "\", expected true, false or no value"));
    }
  }
  return WithReference(chosen, "got a value that is not a number");
}

}  // namespace braid
