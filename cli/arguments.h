// Command lines: the checks and the form of error that all programs share.
#ifndef BRAID_CLI_ARGUMENTS_H_
#define BRAID_CLI_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace braid {

// Parses; the exit code when the program ends here (--help, wrong usage, or
// arguments that are not UTF-8, which no message could carry), printed as
// "PROGRAM: what was wrong".
std::optional<int> ParseArguments(CLI::App& app, const std::string& program, int argc, char** argv);

// For CLI::Option::check: an integer in [minimum, maximum]. Without it a number
// out of range would wrap around or, where zero stands for the default, be ignored.
CLI::Validator IntegerBetween(int64_t minimum, int64_t maximum);
CLI::Validator PositiveInt32();
CLI::Validator PositiveInt64();
CLI::Validator Seed();
// "5GB", "512MiB", "1000": bytes, at least 1; transformed to a plain number.
CLI::Validator ByteSize();
// A finite number of at least 0.
CLI::Validator AtLeastZero();
// A finite number in (0, maximum].
CLI::Validator PositiveUpTo(double maximum);

}  // namespace braid

#endif  // BRAID_CLI_ARGUMENTS_H_
