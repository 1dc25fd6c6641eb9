#include "cli/arguments.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/file_error.h"
#include "base/nearest_word.h"
#include "base/utf8.h"
#include "cli/usage_error.h"

namespace braid {
namespace {

// As exit_code::kUsage of client/session.h, which programs without a client do not link.
constexpr int kUsageError = 2;
constexpr int kOutputError = 1;

std::optional<std::string> NotUtf8(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (IsValidUtf8(argv[i])) continue;
    return absl::StrCat("argument ", i, ": got \"", absl::CHexEscape(argv[i]),
                        "\", expected UTF-8; rename the file or convert the text with iconv");
  }
  return std::nullopt;
}

// Options with a text that may be "".
constexpr std::string_view kMayBeEmpty[] = {"--prompt", "--system", "--text-prefix"};

// CLI11 would take the next argument, even a command, as the value of "--option=".
std::optional<std::string> EmptyValue(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string option = word.substr(0, word.size() - 1);
    const bool may_be_empty = std::ranges::find(kMayBeEmpty, option) != std::end(kMayBeEmpty);
    return absl::StrCat(option, ": got no value after \"=\", expected one; ",
                        may_be_empty ? absl::StrCat("write ", option, " '' for an empty text")
                                     : absl::StrCat("leave out ", option, " for its default"));
  }
  return std::nullopt;
}

// Makes all other options refuse "": it would count as if they had been left out.
void RefuseEmptyValues(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    const std::string name = option->get_name();
    const bool takes_value = option->nonpositional() && option->get_items_expected_max() > 0;
    if (!takes_value || std::ranges::find(kMayBeEmpty, name) != std::end(kMayBeEmpty)) continue;
    option->check(NotEmpty(absl::StrCat("a value; leave out ", name, " for its default")));
  }
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; })) {
    RefuseEmptyValues(*command);
  }
}

bool IsAllDigits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// CLI11 would read such a number as octal.
bool HasLeadingZero(const std::string& text) {
  return text.size() > 1 && text[0] == '0' && IsAllDigits(text);
}

std::string LeadingZeroError(const std::string& text) {
  return absl::StrCat("got \"", text, "\", expected an integer without leading zeros");
}

// Returns whether the reading end of a pipe is closed.
bool ReaderIsGone(int descriptor) {
  pollfd pipe = {.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&pipe, 1, 0) > 0 && (pipe.revents & POLLERR) != 0;
}

}  // namespace

absl::StatusOr<int64_t> ParseDuration(const std::string& flag, const std::string& text) {
  if (text.empty()) return 0;
  constexpr int64_t kMaxSeconds = int64_t{100} * 366 * 24 * 3600;
  const int64_t unit = text.back() == 'd' ? 86400 : text.back() == 'h' ? 3600 : 60;
  int64_t count = 0;
  if ((text.back() == 'd' || text.back() == 'h' || text.back() == 'm') &&
      absl::SimpleAtoi(text.substr(0, text.size() - 1), &count) && count > 0 &&
      count <= kMaxSeconds / unit) {
    return count * unit;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": got \"", text, "\", expected a duration such as 90d, 12h or 30m"));
}

std::optional<int> ParseArguments(CLI::App& app, const std::string& program, int argc,
                                  char** argv) {
  if (const auto problem = NotUtf8(argc, argv); problem.has_value()) {
    std::cerr << program << ": " << *problem << std::endl;
    return kUsageError;
  }
  if (const auto problem = EmptyValue(argc, argv); problem.has_value()) {
    std::cerr << program << ": " << *problem << std::endl;
    return kUsageError;
  }
  RefuseEmptyValues(app);
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    // CLI11 reports --help and --version as errors with code 0.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << program << ": " << UsageErrorText(app, program, error) << std::endl;
    return kUsageError;
  } catch (const std::filesystem::filesystem_error& error) {  // AbsolutePathValue()
    std::cerr << program << ": " << FilesystemError(error).message() << std::endl;
    return kUsageError;
  } catch (const std::logic_error&) {  // std::stoll, which CLI11 reads the values of flags with
    std::cerr << program << ": " << FlagErrorText(app, program, argc, argv) << std::endl;
    return kUsageError;
  }
}

int CheckedOutput(const std::string& program, int exit_code) {
  if (std::cout.flush() || ReaderIsGone(STDOUT_FILENO)) return exit_code;
  std::cerr << program
            << ": cannot write all output to standard output: its disk is full, or it is closed"
            << std::endl;
  return exit_code != 0 ? exit_code : kOutputError;
}

absl::Status FilesystemError(const std::filesystem::filesystem_error& error) {
  if (error.path1().empty()) {
    return absl::InvalidArgumentError("got an empty path, expected a file or directory");
  }
  std::error_code unknown;
  if (std::filesystem::current_path(unknown).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot find the working directory: ", unknown.message(), "; change to another directory"));
  }
  return SystemError("open", error.path1(), error.code().value());
}

std::string ListOfChoices(const std::vector<std::string>& choices) {
  std::string list;
  for (size_t i = 0; i < choices.size(); ++i) {
    absl::StrAppend(&list, i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ", choices[i]);
  }
  return list;
}

CLI::Validator OneOf(const std::vector<std::string>& choices) {
  return CLI::Validator(
      [=](std::string& text) {
        if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string();
        return absl::StrCat("got \"", text, "\", expected ", ListOfChoices(choices),
                            DidYouMean(text, choices));
      },
      absl::StrCat("{", absl::StrJoin(choices, ","), "}"));
}

CLI::Validator IntegerBetween(int64_t minimum, int64_t maximum) {
  return CLI::Validator(
      [=](std::string& text) {
        if (HasLeadingZero(text)) return LeadingZeroError(text);
        int64_t value = 0;
        const bool in_64_bits = absl::SimpleAtoi(text, &value);
        if (in_64_bits && value >= minimum && value <= maximum) return std::string();
        // The largest value of a type is shown only to those who exceeded it.
        const bool is_large = in_64_bits ? value > maximum : IsAllDigits(text);
        const std::string error = absl::StrCat("got \"", text, "\", expected an integer ");
        if (maximum < std::numeric_limits<int32_t>::max()) {
          return absl::StrCat(error, "from ", minimum, " to ", maximum);
        }
        return is_large ? absl::StrCat(error, "of at most ", maximum)
                        : absl::StrCat(error, "of at least ", minimum);
      },
      "");
}

CLI::Validator NotEmpty(const std::string& expected) {
  return CLI::Validator(
      [=](std::string& text) {
        return text.empty() ? absl::StrCat("got \"\", expected ", expected) : std::string();
      },
      "");
}

CLI::Validator ZeroOrBetween(int64_t minimum, int64_t maximum) {
  return CLI::Validator(
      [=](std::string& text) {
        if (HasLeadingZero(text)) return LeadingZeroError(text);
        int64_t value = 0;
        const bool valid = absl::SimpleAtoi(text, &value) &&
                           (value == 0 || (value >= minimum && value <= maximum));
        if (valid) return std::string();
        return absl::StrCat("got \"", text, "\", expected 0 or an integer from ", minimum, " to ",
                            maximum);
      },
      "");
}

CLI::Validator PositiveInt32() { return IntegerBetween(1, std::numeric_limits<int32_t>::max()); }
CLI::Validator PositiveInt64() { return IntegerBetween(1, std::numeric_limits<int64_t>::max()); }
CLI::Validator Seed() { return IntegerBetween(0, std::numeric_limits<int64_t>::max()); }

CLI::Validator ByteSize() {
  static constexpr struct {
    const char* name;
    int64_t bytes;
  } kUnits[] = {{"KiB", 1 << 10},  {"MiB", 1 << 20},      {"GiB", 1 << 30}, {"KB", 1000},
                {"MB", 1'000'000}, {"GB", 1'000'000'000}, {"B", 1},         {"", 1}};
  return CLI::Validator(
      [](std::string& text) {
        for (const auto& unit : kUnits) {
          absl::string_view number = text;
          int64_t count = 0;
          if (!absl::ConsumeSuffix(&number, unit.name)) continue;
          if (!absl::SimpleAtoi(number, &count) || count < 1 ||
              count > std::numeric_limits<int64_t>::max() / unit.bytes) {
            break;
          }
          text = absl::StrCat(count * unit.bytes);
          return std::string();
        }
        return absl::StrCat("got \"", text, "\", expected a size such as 5GB or 512MiB");
      },
      "");
}

CLI::Validator AtLeastZero() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && std::isfinite(value) && value >= 0) {
          return std::string();
        }
        return absl::StrCat("got \"", text, "\", expected a finite number of at least 0");
      },
      "");
}

CLI::Validator NumberBetween(double minimum, double maximum) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value >= minimum && value <= maximum) {
          return std::string();
        }
        return absl::StrCat("got \"", text, "\", expected a number from ", minimum, " to ",
                            maximum);
      },
      "");
}

CLI::Validator PositiveUpTo(double maximum) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value > 0 && value <= maximum) return std::string();
        return absl::StrCat("got \"", text, "\", expected a number above 0, at most ", maximum);
      },
      "");
}

std::string EnumName(const std::string& word) {
  return absl::AsciiStrToUpper(absl::StrReplaceAll(word, {{"-", "_"}}));
}

std::string FlagWord(const std::string& enum_name) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(enum_name, {{"_", "-"}}));
}

void ExcludeUnused(CLI::App* command, CLI::Option* option, const std::vector<std::string>& used) {
  for (CLI::Option* const other : command->get_options()) {
    const bool is_used =
        std::ranges::any_of(used, [&](const std::string& name) { return other->check_name(name); });
    if (!is_used && other != option && other != command->get_help_ptr()) option->excludes(other);
  }
}

void AddStrict(CLI::App* command, bool* strict) {
  const bool by_default = *strict;
  CLI::Option* const refuse = command->add_flag(
      "--strict", *strict,
      by_default ? "Refuse a run whose newest checkpoint is damaged (default)"
                 : "Refuse a run whose newest checkpoint is damaged, instead of using the newest "
                   "good one with a warning");
  if (!by_default) return;
  command
      ->add_flag_callback(
          "--no-strict", [strict] { *strict = false; },
          "Use the newest good checkpoint, with a warning, when the newest one is damaged")
      ->excludes(refuse);
}

void AddState(CLI::App& app, std::filesystem::path& state) {
  app.add_option("--state", state,
                 "Directory for the lists of jobs and runs; use a local disk, and only one host, "
                 "if the file system of --home has no locks (default: --home)")
      ->type_name("DIR")
      ->envname("BRAID_STATE")
      ->transform(AbsolutePathValue())
      ->each([](const std::string& path) { setenv("BRAID_STATE", path.c_str(), 1); });
}

CLI::Validator AbsolutePathValue() {
  return CLI::Validator(
      [](std::string& path) {
        if (!path.empty()) path = std::filesystem::absolute(path).lexically_normal().string();
        return std::string();
      },
      "");
}

}  // namespace braid
