#include "server/access/token_file.h"

#include <sys/stat.h>

#include <ctime>
#include <set>
#include <thread>

#include "rpc/access_token.h"
#include "server/access/authenticator.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace token_file_test {

using absl::StatusCode;

CallerEvidence Bearer(const std::string& token) { return {.authorization = "Bearer " + token}; }

mode_t ModeOf(const std::filesystem::path& path) {
  struct stat status;
  stat(path.c_str(), &status);
  return status.st_mode & 07777;
}

TEST(TokenFileTest, StoresNothingFromWhichATokenCanBeDerived) {
  const ScratchDirectory home;
  ASSERT_OK_AND_ASSIGN(const CreatedToken made,
                       CreateToken(home.path(), "ann", Role::kSubmitter, 0, ""));
  const std::string file = GetFile(TokenPath(home.path()));
  EXPECT_EQ(file.find(std::string(SplitToken(made.token).secret)), std::string::npos);
  EXPECT_NE(file.find(made.entry.hash), std::string::npos);
  EXPECT_EQ(ModeOf(TokenPath(home.path())), 0600U);
  EXPECT_EQ(made.token.size(), 6U + 8 + 1 + 64);
}

TEST(TokenFileTest, SaltsEveryEntry) {
  const ScratchDirectory home;
  std::set<std::string> hashes, tokens;
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK_AND_ASSIGN(const CreatedToken made,
                         CreateToken(home.path(), "ann", Role::kViewer, 0, ""));
    hashes.insert(made.entry.hash);
    tokens.insert(made.token);
  }
  EXPECT_EQ(hashes.size(), 20U);
  EXPECT_EQ(tokens.size(), 20U);
}

TEST(TokenFileTest, KeepsAllTokensThatAreCreatedConcurrently) {
  const ScratchDirectory home;
  std::vector<std::jthread> makers;
  for (int i = 0; i < 8; ++i) {
    makers.emplace_back([&] {
      for (int k = 0; k < 5; ++k) {
        EXPECT_OK(CreateToken(home.path(), "ann", Role::kViewer, 0, ""));
      }
    });
  }
  makers.clear();
  EXPECT_EQ(ReadTokens(home.path()).value().size(), 40U);
}

TEST(TokenFileTest, RefusesAmbiguousNames) {
  const ScratchDirectory home;
  for (const std::string name : {"", "local", "a b", "a\n", "../x", "a\"b"}) {
    EXPECT_FAILS(CreateToken(home.path(), name, Role::kViewer, 0, ""), StatusCode::kInvalidArgument,
                 "name");
  }
  EXPECT_FAILS(RevokeTokens(home.path(), "missing"), StatusCode::kNotFound, "missing");
}

TEST(TokenFileTest, ACertificateIdentifiesOnePrincipal) {
  const ScratchDirectory home;
  ASSERT_OK(CreateToken(home.path(), "ann", Role::kViewer, 60, "node.example").status());
  EXPECT_FAILS(CreateToken(home.path(), "bob", Role::kViewer, 0, "node.example"),
               StatusCode::kAlreadyExists, "ann");
  EXPECT_OK(CreateToken(home.path(), "bob", Role::kViewer, 0, "other.example").status());
  EXPECT_OK(CreateToken(home.path(), "ann", Role::kViewer, 0, "").status());
}

TEST(TokenFileTest, RefusesAFileThatOthersMayReadOrThatIsDamaged) {
  const ScratchDirectory home;
  ASSERT_OK_AND_ASSIGN(const CreatedToken made,
                       CreateToken(home.path(), "ann", Role::kViewer, 0, ""));
  chmod(TokenPath(home.path()).c_str(), 0644);
  EXPECT_FAILS(ReadTokens(home.path()), StatusCode::kFailedPrecondition, "0644", "chmod 600");
  Authenticator authenticator(home.path(), true);
  EXPECT_EQ(authenticator.Identify(Bearer(made.token), 1).status.code(), StatusCode::kUnavailable);
  chmod(TokenPath(home.path()).c_str(), 0600);
  EXPECT_OK(authenticator.Identify(Bearer(made.token), 1).status);
  const std::string whole = GetFile(TokenPath(home.path()));
  for (size_t size = 1; size + 2 < whole.size(); ++size) {
    PutFile(TokenPath(home.path()), whole.substr(0, size));
    chmod(TokenPath(home.path()).c_str(), 0600);
    EXPECT_FAILS(ReadTokens(home.path()), StatusCode::kDataLoss, "tokens");
  }
  std::string newer = whole;
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 2");
  PutFile(TokenPath(home.path()), newer);
  chmod(TokenPath(home.path()).c_str(), 0600);
  EXPECT_FAILS(ReadTokens(home.path()), StatusCode::kDataLoss, "tokens");
}

TEST(AuthenticatorTest, ReturnsTheNameAndRoleOfAToken) {
  const ScratchDirectory home;
  ASSERT_OK_AND_ASSIGN(const CreatedToken ann,
                       CreateToken(home.path(), "ann", Role::kSubmitter, 0, ""));
  ASSERT_OK_AND_ASSIGN(const CreatedToken bob,
                       CreateToken(home.path(), "bob", Role::kViewer, 0, ""));
  Authenticator authenticator(home.path(), true);
  EXPECT_EQ(authenticator.Identify(Bearer(ann.token), 1).caller.name, "ann");
  EXPECT_EQ(authenticator.Identify(Bearer(bob.token), 1).caller.role, Role::kViewer);
  EXPECT_EQ(authenticator.Identify({.authorization = "bearer " + bob.token}, 1).caller.name, "bob");
  // The id of one token with the secret of the other.
  const std::string crossed = "braid_" + ann.entry.id + "_" + bob.token.substr(15);
  EXPECT_EQ(authenticator.Identify(Bearer(crossed), 1).refusal, Refusal::kBadToken);
}

TEST(AuthenticatorTest, RefusesEveryOtherByteOfAToken) {
  const ScratchDirectory home;
  ASSERT_OK_AND_ASSIGN(const CreatedToken made,
                       CreateToken(home.path(), "ann", Role::kViewer, 0, ""));
  Authenticator authenticator(home.path(), true);
  for (size_t i = 0; i < made.token.size(); ++i) {
    std::string wrong = made.token;
    wrong[i] = wrong[i] == '0' ? '1' : '0';
    EXPECT_EQ(authenticator.Identify(Bearer(wrong), 1).refusal, Refusal::kBadToken) << i;
    EXPECT_EQ(authenticator.Identify(Bearer(made.token.substr(0, i)), 1).refusal,
              Refusal::kBadToken);
  }
  EXPECT_EQ(authenticator.Identify({.authorization = "Basic " + made.token}, 1).refusal,
            Refusal::kBadToken);
  EXPECT_EQ(authenticator.Identify({}, 1).refusal, Refusal::kNoToken);
}

TEST(AuthenticatorTest, RefusesExpiredAndRevokedTokens) {
  const ScratchDirectory home;
  ASSERT_OK_AND_ASSIGN(const CreatedToken made,
                       CreateToken(home.path(), "ann", Role::kViewer, 60, ""));
  Authenticator authenticator(home.path(), true);
  const int64_t end = made.entry.expires_at;
  EXPECT_OK(authenticator.Identify(Bearer(made.token), end - 1).status);
  EXPECT_EQ(authenticator.Identify(Bearer(made.token), end).refusal, Refusal::kExpiredToken);
  ASSERT_OK(RevokeTokens(home.path(), made.entry.id));
  EXPECT_EQ(authenticator.Identify(Bearer(made.token), end - 1).refusal, Refusal::kBadToken);
}

TEST(AuthenticatorTest, AnExpiredCertificateDoesNotHideANewOne) {
  const ScratchDirectory home;
  ASSERT_OK_AND_ASSIGN(const CreatedToken old,
                       CreateToken(home.path(), "old", Role::kViewer, 60, "node.example"));
  ASSERT_OK(CreateToken(home.path(), "new", Role::kSubmitter, 0, "new.example").status());
  Authenticator authenticator(home.path(), true);
  const int64_t end = old.entry.expires_at;
  const CallerEvidence both = {.certificate_names = {"node.example", "new.example"}};
  EXPECT_EQ(authenticator.Identify(both, end - 1).caller.name, "old");
  EXPECT_EQ(authenticator.Identify(both, end).caller.name, "new");
  EXPECT_EQ(authenticator.Identify({.certificate_names = {"node.example"}}, end).refusal,
            Refusal::kExpiredToken);
}

TEST(AuthenticatorTest, ReportsOnceWhyTheTokensCannotBeRead) {
  const ScratchDirectory home;
  ASSERT_OK_AND_ASSIGN(const CreatedToken made,
                       CreateToken(home.path(), "ann", Role::kViewer, 0, ""));
  std::vector<std::string> told;
  Authenticator authenticator(home.path(), true,
                              [&told](const std::string& what) { told.push_back(what); });
  const auto fails = [&](mode_t mode) {
    chmod(TokenPath(home.path()).c_str(), mode);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(authenticator.Identify(Bearer(made.token), 1).refusal, Refusal::kTokenFile);
    }
  };
  fails(0644);
  fails(0640);
  chmod(TokenPath(home.path()).c_str(), 0600);
  EXPECT_OK(authenticator.Identify(Bearer(made.token), 1).status);
  fails(0640);
  ASSERT_EQ(told.size(), 3U);
  EXPECT_NE(told[0].find("chmod 600"), std::string::npos) << told[0];
}

TEST(AuthenticatorTest, AdmitsCallersWithoutATokenWhereNoneIsRequired) {
  const ScratchDirectory home;
  Authenticator authenticator(home.path(), false);
  EXPECT_EQ(authenticator.Identify({}, 1).caller.name, "local");
  EXPECT_EQ(authenticator.Identify(Bearer("wrong"), 1).refusal, Refusal::kBadToken);
}

}  // namespace token_file_test
}  // namespace braid
