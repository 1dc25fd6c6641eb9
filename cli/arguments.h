// Parsing of command lines: validators and error messages that the programs share.
#ifndef BRAID_CLI_ARGUMENTS_H_
#define BRAID_CLI_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Parses the arguments. Returns the exit code when the program must exit: after --help or
// --version, or after an error, which is printed as "PROGRAM: message". Arguments that are not
// UTF-8 are errors, since protobuf messages cannot carry them.
std::optional<int> ParseArguments(CLI::App& app, const std::string& program, int argc, char** argv);

// Parses "90d", "12h" or "30m" into seconds; "" is 0. InvalidArgument names `flag`.
absl::StatusOr<int64_t> ParseDuration(const std::string& flag, const std::string& text);

// Validators for CLI::Option::check and CLI::Option::transform.

// Accepts an integer in [minimum, maximum]. Without this check, CLI11 would wrap numbers out of
// range, and a zero would mean the default.
CLI::Validator IntegerBetween(int64_t minimum, int64_t maximum);
CLI::Validator PositiveInt32();
CLI::Validator PositiveInt64();
// Accepts an integer from 0 to 2^63 - 1.
CLI::Validator Seed();
// Accepts a size of at least one byte, such as "5GB", "512MiB" or "1000", and transforms it to a
// number of bytes.
CLI::Validator ByteSize();
// Accepts a finite number of at least 0.
CLI::Validator AtLeastZero();
// Accepts a number in (0, maximum].
CLI::Validator PositiveUpTo(double maximum);
// Transforms a path to an absolute one, which also holds for a server or a later process; leaves an
// empty value empty.
CLI::Validator AbsolutePathValue();

// Adds --strict, which refuses a run whose newest checkpoint is damaged; the value of `strict` is
// the default. Where it is true, also adds --no-strict. `strict` must outlive the command.
void AddStrict(CLI::App* command, bool* strict);

}  // namespace braid

#endif  // BRAID_CLI_ARGUMENTS_H_
