// A real braidd over TLS with the real braid as its client: secrets do not leak, every call is
// logged, and clients may use only allowed paths.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "braid/v1/embedding.grpc.pb.h"
#include "retrieval/embedding_service.h"
#include "rpc/access_token.h"
#include "server/access/token_file.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/program.h"
#include "tests/server/access/test_certificates.h"

namespace braid {
namespace braidd_safety_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output, errors;
};

class BraiddSafetyTest : public ::testing::Test {
 protected:
  BraiddSafetyTest() : authority_("braid test authority") {
    PutFile(scratch_ / "ca.pem", authority_.certificate());
    server_key_ = Put("server", authority_.Issue("server"));
    client_key_ = Put("client", authority_.Issue("client"));
    fs::create_directories(scratch_ / "corpora");
    std::string corpus;
    for (int i = 0; i < 200; ++i) {
      corpus += R"({"text":"document )" + std::to_string(i) +
                R"( has some words of its own and some of others"})"
                "\n";
    }
    PutFile(scratch_ / "corpora/corpus.jsonl", corpus);
    PutFile(scratch_ / "secret.txt", "outside of what is allowed");
  }

  std::string Put(const std::string& name, const TestCertificate& made) {
    PutFile(scratch_ / (name + ".pem"), made.certificate);
    PutFile(scratch_ / (name + ".key"), made.key);
    fs::permissions(scratch_ / (name + ".key"), fs::perms::owner_read);
    return made.key;
  }
  std::string In(const std::string& name) const { return (scratch_ / name).string(); }

  void Start() {
    server_.emplace(
        std::vector<std::string>{BRAID_BIN_DIR "/braidd",
                                 "--listen",
                                 "127.0.0.1:0",
                                 "--home",
                                 In("home"),
                                 "--services",
                                 "pipeline,training,analysis,generation,embedding",
                                 "--tls-certificate",
                                 In("server.pem"),
                                 "--tls-key",
                                 In("server.key"),
                                 "--tls-ca",
                                 In("ca.pem"),
                                 "--allow",
                                 In("corpora"),
                                 "--log-file",
                                 In("log.jsonl"),
                                 "--log-level",
                                 "debug",
                                 "--drain",
                                 "5"},
        TestProgramOptions{
            .directory = scratch_.path(), .output = In("server.out"), .errors = In("server.err")});
    address_ = server_->WaitForOutput(" at ", ", state");
    ASSERT_FALSE(address_.empty()) << server_->err();
  }
  int Stop() {
    server_->Signal(SIGTERM);
    return server_->Wait();
  }
  // Runs `meanwhile` while a stream to the embedding service is open, which a drain waits for.
  void HoldACall(const std::string& token, const std::function<void()>& meanwhile) {
    const auto channel =
        grpc::CreateChannel(address_, grpc::SslCredentials({authority_.certificate(), client_key_,
                                                            GetFile(scratch_ / "client.pem")}));
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = v1::EmbeddingService::NewStub(channel)->Embed(&context);
    stream->WaitForInitialMetadata();
    ASSERT_TRUE(context.GetServerInitialMetadata().contains(kEmbedderDimensionKey))
        << "the embedding service does not have the call";
    meanwhile();
    context.TryCancel();
    stream->Finish();
  }
  Outcome Braid(const std::vector<std::string>& arguments,
                const std::vector<std::string>& variables = {}) {
    std::vector<std::string> all = {
        BRAID_BIN_DIR "/braid", "--server",          address_,         "--home",
        In("client_home"),      "--tls-certificate", In("client.pem"), "--tls-key",
        In("client.key"),       "--tls-ca",          In("ca.pem")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Outcome outcome;
    TestProgram program(all, {.variables = variables,
                              .directory = scratch_.path(),
                              .output = In("out"),
                              .errors = In("err")});
    outcome.exit_code = program.Wait();
    outcome.output = program.out();
    outcome.errors = program.err();
    seen_ += outcome.output + outcome.errors;
    return outcome;
  }
  std::string Token(const std::string& name, Role role) {
    const std::string token = CreateToken(In("home"), name, role, 0, "").value().token;
    PutFile(scratch_ / (name + ".token"), token + "\n");
    fs::permissions(scratch_ / (name + ".token"), fs::perms::owner_read);
    return token;
  }
  std::vector<json> LogLines() const {
    std::vector<json> lines;
    std::ifstream file(scratch_ / "log.jsonl");
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
  // Returns the command lines and environments of all processes.
  static std::string ProcessTexts() {
    std::string all;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      all += GetFile(entry.path() / "cmdline");
      if (name != std::to_string(getpid())) all += GetFile(entry.path() / "environ");
    }
    return all;
  }

  ScratchDirectory scratch_;
  TestAuthority authority_;
  std::string server_key_, client_key_, address_, seen_;
  std::optional<TestProgram> server_;
};

// Returns a line from the middle of a PEM file, which identifies it.
std::string MiddleLine(const std::string& pem) {
  const size_t begin = pem.find('\n') + 1;
  return pem.substr(begin, pem.find('\n', begin) - begin);
}

TEST_F(BraiddSafetyTest, SecretsDoNotLeak) {
  Start();
  const std::string ann = Token("ann", Role::kSubmitter),
                    wrong = "braid_00000000_" + std::string("c0ffee") + ann.substr(21);
  const std::vector<std::string> as_ann = {"--token-file", In("ann.token")};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), as_ann.begin(), as_ann.end());
    return Braid(arguments);
  };
  const Outcome done = with({"submit", In("corpora/corpus.jsonl"), "--wait", "--set",
                             "pack.sequence_length=32", "--set", "tokenizer.vocab_size=300"});
  EXPECT_EQ(done.exit_code, 0) << done.errors;
  const std::string processes = ProcessTexts();
  with({"jobs"});
  with({"cancel", "job-000001"});
  with({"resume", "job-000001"});
  with({"stop", "run-000001"});
  with({"train", "--data", "job-000001", "--preset", "tiny", "--name", "canary"});
  with({"status", "job-000001"});
  with({"generate", "run-000001", "--prompt", "x"});
  with({"submit", In("secret.txt")});
  EXPECT_EQ(Braid({"jobs"}, {"BRAID_TOKEN=" + ann}).exit_code, 0);
  EXPECT_NE(Braid({"jobs"}, {"BRAID_TOKEN=" + wrong}).exit_code, 0);
  EXPECT_NE(Braid({"jobs"}, {"BRAID_TOKEN=" + ann + " " + ann}).exit_code, 0);
  // gRPC would end the program; as a token is often copied with a no-break space.
  EXPECT_EQ(Braid({"jobs"}, {"BRAID_TOKEN=" + ann + "\xC2\xA0"}).exit_code, 2);
  EXPECT_EQ(Stop(), 0) << GetFile(scratch_ / "server.err");

  const std::map<std::string, std::string> canaries = {
      {"the token", std::string(SplitToken(ann).secret)},
      {"a wrong token", std::string(SplitToken(wrong).secret)},
      {"the server's key", MiddleLine(server_key_)},
      {"the client's key", MiddleLine(client_key_)}};
  for (const auto& [what, secret] : canaries) {
    ASSERT_GT(secret.size(), 32U);
    EXPECT_EQ(processes.find(secret), std::string::npos) << what << " is in /proc";
    EXPECT_EQ(seen_.find(secret), std::string::npos) << what << " was printed";
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path())) {
      const std::string extension = entry.path().extension();
      if (!entry.is_regular_file() || extension == ".token" || extension == ".key") continue;
      EXPECT_EQ(GetFile(entry.path()).find(secret), std::string::npos)
          << what << " is in " << entry.path();
    }
  }
}

TEST_F(BraiddSafetyTest, TheLogHasEveryCallWithTheIdOfItsError) {
  Start();
  Token("vera", Role::kViewer);
  const Outcome refused = Braid({"--token-file", In("vera.token"), "cancel", "job-000001"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("vera is a viewer"), HasSubstr("submitter")));
  const size_t begin = refused.errors.find("(request ") + 9;
  const std::string id = refused.errors.substr(begin, refused.errors.find(')', begin) - begin);
  EXPECT_THAT(Braid({"jobs"}).errors, HasSubstr("token"));
  EXPECT_EQ(Stop(), 0);
  bool found = false;
  for (const json& line : LogLines()) {
    EXPECT_TRUE(line.contains("time") && line.contains("level")) << line;
    if (line.value("request", "") != id) continue;
    found = true;
    EXPECT_EQ(line.at("principal"), "vera");
    EXPECT_EQ(line.at("method"), "/braid.v1.PipelineService/CancelJob");
    EXPECT_EQ(line.at("code"), "PERMISSION_DENIED");
    EXPECT_EQ(line.at("refusal"), "role");
    EXPECT_EQ(line.at("level"), "warning");
  }
  EXPECT_TRUE(found) << "request \"" << id << "\"";
}

TEST_F(BraiddSafetyTest, ClientsMayUseOnlyAllowedPaths) {
  Start();
  Token("ann", Role::kOperator);
  fs::create_symlink("../secret.txt", scratch_ / "corpora/link.txt");
  for (const std::string& path :
       {In("secret.txt"), In("corpora/../secret.txt"), In("corpora/link.txt"), In("home/tokens"),
        std::string("/etc/passwd"), std::string("/proc/self/environ")}) {
    const Outcome described = Braid({"--token-file", In("ann.token"), "corpus", "describe", path});
    EXPECT_THAT(described.errors, HasSubstr("--allow")) << path;
    const Outcome outcome = Braid({"--token-file", In("ann.token"), "submit", path});
    EXPECT_EQ(outcome.exit_code, 1) << path << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("--allow")) << path;
  }
  const Outcome outside =
      Braid({"--token-file", In("ann.token"), "import", In("corpora"), "--output", "/tmp/x"});
  EXPECT_THAT(outside.errors, HasSubstr("--allow"));
  EXPECT_EQ(Stop(), 0);
}

TEST_F(BraiddSafetyTest, ASecondSignalEndsTheDrainAtOnce) {
  Start();
  const std::string token = Token("ann", Role::kSubmitter);
  EXPECT_EQ(Braid({"--token-file", In("ann.token"), "jobs"}).exit_code, 0);
  HoldACall(token, [this] {
    const auto begin = std::chrono::steady_clock::now();
    server_->Signal(SIGTERM);
    EXPECT_TRUE(WaitUntil(
        [&] { return GetFile(scratch_ / "log.jsonl").find("draining") != std::string::npos; }));
    const auto has_ended = [&] { return !server_->IsRunning(); };
    EXPECT_FALSE(WaitUntil(has_ended, std::chrono::milliseconds(200)))
        << "it did not wait for the call";
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 128 + SIGTERM);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(4500));
  });
}

TEST_F(BraiddSafetyTest, TokensAreNotSentUnencryptedNorReadFromOpenFiles) {
  Start();
  Token("ann", Role::kViewer);
  fs::permissions(In("ann.token"), fs::perms::owner_read | fs::perms::others_read);
  const Outcome open = Braid({"--token-file", In("ann.token"), "jobs"});
  EXPECT_THAT(open.errors, AllOf(HasSubstr("chmod 600"), Not(HasSubstr("braid_"))));
  fs::permissions(In("ann.token"), fs::perms::owner_read);
  TestProgram insecure({BRAID_BIN_DIR "/braid", "--server", "192.0.2.1:7077", "--insecure",
                        "--token-file", In("ann.token"), "jobs"});
  EXPECT_EQ(insecure.Wait(), 2);
  EXPECT_THAT(insecure.err(), HasSubstr("without encryption"));
  EXPECT_EQ(Stop(), 0);
}

}  // namespace braidd_safety_test
}  // namespace braid
