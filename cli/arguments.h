// Parsing of command lines: validators and error messages that the programs share.
#ifndef BRAID_CLI_ARGUMENTS_H_
#define BRAID_CLI_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Parses the arguments. Returns the exit code when the program must exit: after --help or
// --version, or after an error, which is printed as "PROGRAM: message". Arguments that are not
// UTF-8 are errors, since protobuf messages cannot carry them.
std::optional<int> ParseArguments(CLI::App& app, const std::string& program, int argc, char** argv);

// Parses "90d", "12h" or "30m" into seconds; "" is 0. InvalidArgument names `flag`.
absl::StatusOr<int64_t> ParseDuration(const std::string& flag, const std::string& text);
// Flushes standard output. Returns `exit_code`, or 1 instead of 0 if anything that was written to
// it got lost, such as on a full disk, which is then reported as "PROGRAM: message". A reader that
// has closed its pipe, such as head, wants no more and is not an error.
int CheckedOutput(const std::string& program, int exit_code);

// Returns the error of std::filesystem without the names of its functions, with the path or, when
// the working directory was deleted, with that reason.
absl::Status FilesystemError(const std::filesystem::filesystem_error& error);

// Returns "a, b or c".
std::string ListOfChoices(const std::vector<std::string>& choices);

// Validators for CLI::Option::check and CLI::Option::transform.

// Accepts one of the words. The help shows them in braces.
CLI::Validator OneOf(const std::vector<std::string>& choices);
// Accepts any text but "", which is more often an unset variable of a script than meant.
// `expected` completes "expected ".
CLI::Validator NotEmpty(const std::string& expected);
// Accepts an integer in [minimum, maximum]. Without this check, CLI11 would wrap numbers out of
// range, and a zero would mean the default.
CLI::Validator IntegerBetween(int64_t minimum, int64_t maximum);
// Accepts 0, which switches something off, and integers in [minimum, maximum].
CLI::Validator ZeroOrBetween(int64_t minimum, int64_t maximum);
CLI::Validator PositiveInt32();
CLI::Validator PositiveInt64();
// Accepts an integer from 0 to 2^63 - 1.
CLI::Validator Seed();
// Accepts a size of at least one byte, such as "5GB", "512MiB" or "1000", and transforms it to a
// number of bytes.
CLI::Validator ByteSize();
// Accepts a finite number of at least 0.
CLI::Validator AtLeastZero();
// Accepts a number in [minimum, maximum].
CLI::Validator NumberBetween(double minimum, double maximum);
// Accepts a number in (0, maximum].
CLI::Validator PositiveUpTo(double maximum);
// Transforms a path to an absolute one, which also holds for a server or a later process; leaves an
// empty value empty.
CLI::Validator AbsolutePathValue();

// Adds --state DIR, which also sets $BRAID_STATE for base/byte_lock.h and the programs that this
// one starts. `state` must outlive the command.
void AddState(CLI::App& app, std::filesystem::path& state);

// Returns the name of an enum value in the protos: "skip-batch" is SKIP_BATCH.
std::string EnumName(const std::string& word);
// Returns the word of an enum value on the command line: SKIP_BATCH is "skip-batch".
std::string FlagWord(const std::string& enum_name);

// Makes `option` and all other options and arguments of `command` exclude each other, except those
// named in `used` and the help. Requires: all of them were added.
void ExcludeUnused(CLI::App* command, CLI::Option* option, const std::vector<std::string>& used);

// Adds --strict, which refuses a run whose newest checkpoint is damaged; the value of `strict` is
// the default. Where it is true, also adds --no-strict. `strict` must outlive the command.
void AddStrict(CLI::App* command, bool* strict);

}  // namespace braid

#endif  // BRAID_CLI_ARGUMENTS_H_
