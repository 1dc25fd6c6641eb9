#include "cli/arguments.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <limits>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/nearest_word.h"
#include "base/utf8.h"
#include "client/session.h"

namespace braid {
namespace {

// Returns the deepest chosen command, to refer to its --help.
std::string CommandPath(const CLI::App& app, const std::string& program) {
  std::string path = program;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    absl::StrAppend(&path, " ", at->get_name());
  }
  return path;
}

std::string UnknownCommand(const CLI::App& app, const std::string& got) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::string nearest = NearestWord(got, names);
  return absl::StrCat("unknown command \"", got, "\"",
                      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"));
}

std::string Problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left = app.remaining();
  const bool no_command = app.get_subcommands().empty();
  if (no_command && !left.empty() && !app.get_subcommands(nullptr).empty()) {
    return UnknownCommand(app, left.front());
  }
  return error.what();
}

std::optional<std::string> NotUtf8(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (IsValidUtf8(argv[i])) continue;
    return absl::StrCat("argument ", i, ": got \"", absl::CHexEscape(argv[i]),
                        "\", expected UTF-8; rename the file or convert the text with iconv");
  }
  return std::nullopt;
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
    return exit_code::kUsage;
  }
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    // CLI11 reports --help and --version as errors with code 0.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << program << ": " << Problem(app, error) << "; see '" << CommandPath(app, program)
              << " --help'" << std::endl;
    return exit_code::kUsage;
  }
}

CLI::Validator IntegerBetween(int64_t minimum, int64_t maximum) {
  return CLI::Validator(
      [=](std::string& text) {
        int64_t value = 0;
        if (absl::SimpleAtoi(text, &value) && value >= minimum && value <= maximum) {
          return std::string();
        }
        return absl::StrCat("got \"", text, "\", expected an integer from ", minimum, " to ",
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

CLI::Validator PositiveUpTo(double maximum) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value > 0 && value <= maximum) return std::string();
        return absl::StrCat("got \"", text, "\", expected a number above 0, at most ", maximum);
      },
      "");
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

CLI::Validator AbsolutePathValue() {
  return CLI::Validator(
      [](std::string& path) {
        if (!path.empty()) path = std::filesystem::absolute(path).lexically_normal().string();
        return std::string();
      },
      "");
}

}  // namespace braid
