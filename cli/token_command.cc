#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/terminal/table.h"
#include "server/access/token_file.h"

namespace braid {
namespace {

struct TokenOptions {
  std::string name, role, expires, certificate, revoked;
};

std::string Day(int64_t unix_seconds) {
  if (unix_seconds == 0) return "never";
  return FormatTime(static_cast<double>(unix_seconds));
}

// Refuses --server, whose tokens would seem to be managed.
absl::Status CheckNoServer(const Session& session) {
  if (session.embedded()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--server: got ", session.options.server,
      ", but 'braid token' manages the tokens in --home of this machine; run it on the "
      "server's machine without --server"));
}

bool IsExpired(const AccessEntry& entry) {
  return entry.expires_at != 0 && entry.expires_at <= std::time(nullptr);
}

// Returns an entry without its hash; "expires_at" is 0 for one that does not expire.
nlohmann::json EntryJson(const AccessEntry& entry) {
  nlohmann::json json = {{"id", entry.id},
                         {"name", entry.name},
                         {"role", RoleName(entry.role)},
                         {"created_at", entry.created_at},
                         {"expires_at", entry.expires_at},
                         {"expired", IsExpired(entry)}};
  if (!entry.certificate.empty()) json["certificate"] = entry.certificate;
  return json;
}

absl::Status Create(const CommandLine& program, const TokenOptions& options) {
  RETURN_IF_ERROR(CheckNoServer(program.session));
  const std::optional<Role> role = ParseRole(options.role);
  if (!role) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role: got \"", options.role, "\", expected viewer, submitter or operator"));
  }
  ASSIGN_OR_RETURN(const int64_t lifetime, ParseDuration("--expires", options.expires));
  ASSIGN_OR_RETURN(const CreatedToken created,
                   CreateToken(program.session.options.home, options.name, *role, lifetime,
                               options.certificate));
  // Prints only the token on standard output, so that it can be redirected to a file.
  std::cerr << "braid: " << created.entry.id << ": " << options.role << " " << options.name
            << ", expires " << Day(created.entry.expires_at)
            << (created.entry.expires_at == 0 ? "" : " (UTC)")
            << (created.token.empty() ? "" : "; store the token now, it is not shown again")
            << std::endl;
  if (program.session.json) {
    nlohmann::json json = EntryJson(created.entry);
    if (!created.token.empty()) json["token"] = created.token;
    std::cout << json.dump(1) << std::endl;
  } else if (!created.token.empty()) {
    std::cout << created.token << std::endl;
  }
  return absl::OkStatus();
}

absl::Status List(const CommandLine& program) {
  RETURN_IF_ERROR(CheckNoServer(program.session));
  ASSIGN_OR_RETURN(const auto entries, ReadTokens(program.session.options.home));
  if (program.session.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const AccessEntry& entry : entries) list.push_back(EntryJson(entry));
    std::cout << list.dump(1) << std::endl;
    return absl::OkStatus();
  }
  Table table({"ID", "NAME", "ROLE", "CREATED (UTC)", "EXPIRES", "CERTIFICATE"});
  for (const AccessEntry& entry : entries) {
    table.AddRow({entry.id, entry.name, std::string(RoleName(entry.role)), Day(entry.created_at),
                  IsExpired(entry) ? "expired" : Day(entry.expires_at),
                  entry.certificate.empty() ? "-" : entry.certificate});
  }
  table.Print(std::cout);
  std::cout.flush();
  return absl::OkStatus();
}

absl::Status Revoke(const CommandLine& program, const TokenOptions& options) {
  RETURN_IF_ERROR(CheckNoServer(program.session));
  ASSIGN_OR_RETURN(const int count, RevokeTokens(program.session.options.home, options.revoked));
  if (program.session.json) {
    std::cout << nlohmann::json{{"revoked", count}}.dump() << std::endl;
  } else {
    std::cout << "revoked " << count << (count == 1 ? " token" : " tokens") << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace

void AddTokenCommand(CommandLine& program) {
  auto options = std::make_shared<TokenOptions>();
  CLI::App* const token = program.app.add_subcommand(
      "token", "Manage access tokens of the braidd that uses this --home");
  token->require_subcommand(1);
  CLI::App* const create = token->add_subcommand("create", "Create a token and print it once");
  create
      ->add_option("--name", options->name,
                   "Principal that uses the token; quotas and logs refer to it")
      ->required();
  create
      ->add_option("--role", options->role, "Role of the principal: viewer, submitter or operator")
      ->required();
  create->add_option("--expires", options->expires,
                     "Lifetime, such as 90d, 12h or 30m (default: unlimited)");
  create->add_option("--certificate", options->certificate,
                     "Grant the role to a client certificate with this common name or subject "
                     "alternative name, instead of creating a token");
  create->footer(
      "Examples:\n  (umask 077; braid token create --name ann --role submitter --expires 90d "
      "--home /data/braid > ann.token)\n"
      "  braid --server braid.example.org:7077 --token-file ann.token ... jobs");
  create->callback([&program, options] {
    program.action = [&program, options] { return Create(program, *options); };
  });
  CLI::App* const list =
      token->add_subcommand("list", "List tokens with names, roles and expiry, without secrets");
  list->footer("Example:\n  braid token list --home /data/braid");
  list->callback([&program] { program.action = [&program] { return List(program); }; });
  CLI::App* const revoke =
      token->add_subcommand("revoke", "Revoke tokens; takes effect with the next call");
  revoke
      ->add_option("token", options->revoked,
                   "Id of a token, or the name of a principal to revoke all of its tokens")
      ->required();
  revoke->footer(
      "Examples:\n"
      "  braid token revoke ann --home /data/braid\n"
      "  braid --home /data/braid token list");
  revoke->callback([&program, options] {
    program.action = [&program, options] { return Revoke(program, *options); };
  });
}

}  // namespace braid
