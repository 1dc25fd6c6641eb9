#include <ctime>
#include <iostream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "server/access/token_file.h"

namespace braid {
namespace {

struct TokenOptions {
  std::string name, role, expires, certificate, revoked;
};

// "90d", "12h", "30m" -> seconds; "": never, 0.
absl::StatusOr<int64_t> ParseLifetime(const std::string& text) {
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
      absl::StrCat("--expires: got \"", text, "\", expected for example 90d, 12h or 30m"));
}

std::string Day(int64_t unix_seconds) {
  if (unix_seconds == 0) return "never";
  return FormatTime(static_cast<double>(unix_seconds));
}

absl::Status Create(const Program& program, const TokenOptions& options) {
  const std::optional<Role> role = ParseRole(options.role);
  if (!role) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role: got \"", options.role, "\", expected viewer, submitter or operator"));
  }
  ASSIGN_OR_RETURN(const int64_t lifetime, ParseLifetime(options.expires));
  ASSIGN_OR_RETURN(const CreatedToken created,
                   CreateToken(program.session.options.home, options.name, *role, lifetime,
                               options.certificate));
  // The token alone on standard output, so that it can go to a file.
  std::cerr << "braid: " << created.entry.id << ": " << options.role << " " << options.name
            << ", expires " << Day(created.entry.expires_at) << " (UTC)"
            << (created.token.empty() ? "" : "; this is the only time the token is shown")
            << std::endl;
  if (!created.token.empty()) std::cout << created.token << std::endl;
  return absl::OkStatus();
}

absl::Status List(const Program& program) {
  ASSIGN_OR_RETURN(const auto entries, ReadTokens(program.session.options.home));
  std::cout << absl::StreamFormat("%-8s  %-16s  %-9s  %-16s  %-16s  %s\n", "ID", "NAME", "ROLE",
                                  "CREATED (UTC)", "EXPIRES", "CERTIFICATE");
  for (const AccessEntry& entry : entries) {
    const bool expired = entry.expires_at != 0 && entry.expires_at <= std::time(nullptr);
    std::cout << absl::StreamFormat("%-8s  %-16s  %-9s  %-16s  %-16s  %s\n", entry.id, entry.name,
                                    std::string(RoleName(entry.role)), Day(entry.created_at),
                                    expired ? "expired" : Day(entry.expires_at),
                                    entry.certificate.empty() ? "-" : entry.certificate);
  }
  return absl::OkStatus();
}

absl::Status Revoke(const Program& program, const TokenOptions& options) {
  ASSIGN_OR_RETURN(const int count, RevokeTokens(program.session.options.home, options.revoked));
  std::cout << "revoked " << count << (count == 1 ? " token" : " tokens") << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddTokenCommand(Program& program) {
  auto options = std::make_shared<TokenOptions>();
  CLI::App* const token =
      program.app.add_subcommand("token", "Who may call the braidd of this --home");
  token->require_subcommand(1);
  CLI::App* const create = token->add_subcommand("create", "Makes a token and prints it, once");
  create->add_option("--name", options->name, "The caller: of quotas and of the log")->required();
  create->add_option("--role", options->role, "viewer, submitter or operator")->required();
  create->add_option("--expires", options->expires, "90d, 12h, 30m (default: never)");
  create->add_option("--certificate", options->certificate,
                     "Instead of a token: the common name or a subject alternative name of a "
                     "client certificate");
  create->footer(
      "Example:\n  (umask 077; braid token create --name ann --role submitter --expires 90d "
      "--home /data/braid > ann.token)\n"
      "  braid --server braid.example.org:7077 --token-file ann.token ... jobs");
  create->callback([&program, options] {
    program.action = [&program, options] { return Create(program, *options); };
  });
  CLI::App* const list = token->add_subcommand("list", "Names, roles and expiry; no secrets");
  list->callback([&program] { program.action = [&program] { return List(program); }; });
  CLI::App* const revoke = token->add_subcommand("revoke", "Ends tokens with the next call");
  revoke->add_option("token", options->revoked, "Id of one, or the name for all of it")->required();
  revoke->callback([&program, options] {
    program.action = [&program, options] { return Revoke(program, *options); };
  });
}

}  // namespace braid
