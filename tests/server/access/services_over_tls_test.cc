// Jobs with real embedding and neighbor servers that require TLS and a token.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "control/supervision/subprocess.h"
#include "server/access/token_file.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/server/access/test_certificates.h"
#include "tests/server/real_braidd.h"

namespace braid {
namespace services_over_tls_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output, errors;
};

class ServicesOverTlsTest : public ::testing::Test {
 protected:
  ServicesOverTlsTest()
      : authority_("braid test authority"),
        embedding_(Server("embedding", "embedding")),
        neighbors_(Server("neighbors", "neighbors")) {
    PutFile(scratch_ / "ca.pem", authority_.certificate());
    Put("server", authority_.Issue("server"));
    Put("job", authority_.Issue("job"));
    std::string corpus;
    for (int i = 0; i < 120; ++i) {
      corpus += R"({"text":"document )" + std::to_string(i) + " has some words of topic " +
                std::to_string(i % 11) + "\"}\n";
    }
    PutFile(scratch_ / "corpus.jsonl", corpus);
  }

  void SetUp() override {
    ASSERT_TRUE(embedding_.Start());
    ASSERT_TRUE(neighbors_.Start());
  }

  void Put(const std::string& name, const TestCertificate& made) {
    PutFile(scratch_ / (name + ".pem"), made.certificate);
    PutFile(scratch_ / (name + ".key"), made.key);
    fs::permissions(scratch_ / (name + ".key"), fs::perms::owner_read);
  }
  std::string In(const std::string& name) const { return (scratch_ / name).string(); }

  std::vector<std::string> Tls(const std::string& name) const {
    return {"--tls-certificate", In(name + ".pem"), "--tls-key",
            In(name + ".key"),   "--tls-ca",        In("ca.pem")};
  }
  RealBraidd Server(const std::string& name, const std::string& services,
                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> flags = Tls("server");
    flags.insert(flags.end(), {"--services", services});
    flags.insert(flags.end(), more.begin(), more.end());
    return RealBraidd(BRAID_BIN_DIR "/braidd", scratch_ / name, flags);
  }
  // Returns a file with a token that both servers accept, since they have the same token file.
  std::string SharedToken(Role role) {
    const std::string token = CreateToken(embedding_.home(), "jobs", role, 0, "").value().token;
    fs::copy_file(embedding_.home() / "tokens", neighbors_.home() / "tokens",
                  fs::copy_options::overwrite_existing);
    PutFile(scratch_ / "jobs.token", token + "\n");
    fs::permissions(scratch_ / "jobs.token", fs::perms::owner_read);
    return In("jobs.token");
  }

  Outcome Braid(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {BRAID_BIN_DIR "/braid", "--home", In("home")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Outcome outcome;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto result = RunSubprocess(
        {.arguments = all, .environment = TrainerEnvironment()},
        [&](std::string_view line) {
          outcome.output.append(line).append("\n");
          return true;
        },
        [&] { return std::chrono::steady_clock::now() > end; });
    if (!result.ok()) return outcome;
    outcome.exit_code = result->exit_code;
    outcome.errors = result->error_output;
    return outcome;
  }
  // Submits with the global options `front`, through a server or embedded.
  Outcome Submit(std::vector<std::string> front) const {
    const std::vector<std::string> command = {"submit",
                                              In("corpus.jsonl"),
                                              "--embedding-servers",
                                              embedding_.address(),
                                              "--neighbor-servers",
                                              neighbors_.address(),
                                              "--wait",
                                              "--set",
                                              "pack.sequence_length=32",
                                              "--set",
                                              "tokenizer.vocab_size=300"};
    front.insert(front.end(), command.begin(), command.end());
    return Braid(front);
  }

  ScratchDirectory scratch_;
  TestAuthority authority_;
  RealBraidd embedding_, neighbors_;
};

TEST_F(ServicesOverTlsTest, AnEmbeddedJobSendsItsCertificateAndToken) {
  std::vector<std::string> flags = Tls("job");
  const Outcome without = Submit(flags);
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.errors, AllOf(HasSubstr("embedding server " + embedding_.address()),
                                    HasSubstr("requires a token"), HasSubstr("--token-file")));

  const std::string token = SharedToken(Role::kSubmitter);
  flags.insert(flags.end(), {"--token-file", token});
  const Outcome with = Submit(flags);
  EXPECT_EQ(with.exit_code, 0) << with.errors;
  EXPECT_TRUE(fs::is_empty(neighbors_.home() / "neighbors")) << "shards are dropped";
}

TEST_F(ServicesOverTlsTest, AJobOfAServerSendsTheServicesToken) {
  const std::string token = SharedToken(Role::kSubmitter);
  RealBraidd alone = Server("alone", "pipeline", {"--allow", scratch_.path().string()});
  RealBraidd trusted = Server(
      "trusted", "pipeline", {"--allow", scratch_.path().string(), "--services-token-file", token});
  for (RealBraidd* server : {&alone, &trusted}) {
    ASSERT_TRUE(server->Start());
    const std::string own = CreateToken(server->home(), "ann", Role::kSubmitter, 0, "")->token;
    PutFile(scratch_ / "ann.token", own);
    fs::permissions(scratch_ / "ann.token", fs::perms::owner_read | fs::perms::owner_write);
    std::vector<std::string> flags = Tls("job");
    flags.insert(flags.end(), {"--token-file", In("ann.token"), "--server", server->address()});
    const Outcome outcome = Submit(flags);
    if (server == &trusted) {
      EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    } else {
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_THAT(outcome.errors,
                  AllOf(HasSubstr("requires a token"), HasSubstr("--services-token-file")));
    }
    for (const std::string& text : {outcome.errors, GetFile(scratch_ / "trusted/braidd.log")}) {
      EXPECT_THAT(text, Not(HasSubstr(GetFile(token).substr(15, 40)))) << "a token was printed";
    }
  }
}

TEST_F(ServicesOverTlsTest, InsufficientRolesAndMissingFilesAreReported) {
  std::vector<std::string> flags = Tls("job");
  flags.insert(flags.end(), {"--token-file", SharedToken(Role::kViewer)});
  const Outcome viewer = Submit(flags);
  EXPECT_EQ(viewer.exit_code, 1);
  EXPECT_THAT(viewer.errors, AllOf(HasSubstr("jobs is a viewer"), HasSubstr("submitter")));
  flags.back() = In("nowhere.token");
  EXPECT_THAT(Submit(flags).errors, HasSubstr("nowhere.token"));
}

}  // namespace services_over_tls_test
}  // namespace braid
