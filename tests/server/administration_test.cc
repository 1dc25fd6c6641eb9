// What an operator relies on: streams end with their token, logs rotate, metrics and warnings say
// what needs attention, and jobs name the servers that they wait for.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_lock.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "pipeline/jobs/job_worker.h"
#include "server/access/token_file.h"
#include "server/listening_sockets.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/server/real_braidd.h"

namespace braid {
namespace administration_test {

using testing::AllOf;
using testing::HasSubstr;

// Connects to a port of this machine, sends text and returns the socket.
int Send(int port, std::string_view text) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in target = {.sin_family = AF_INET,
                        .sin_port = htons(static_cast<uint16_t>(port)),
                        .sin_addr = {htonl(INADDR_LOOPBACK)},
                        .sin_zero = {}};
  EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&target), sizeof(target)), 0);
  EXPECT_EQ(send(descriptor, text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
  return descriptor;
}

// Returns the response of GET /metrics.
std::string Scrape(int port) {
  const int descriptor = Send(port, "GET /metrics HTTP/1.0\r\n\r\n");
  std::string text;
  char block[4096];
  for (ssize_t n = 0; (n = recv(descriptor, block, sizeof(block), 0)) > 0;) {
    text.append(block, static_cast<size_t>(n));
  }
  close(descriptor);
  return text;
}

// Returns a file of a process, with spaces for NULs.
std::string OfProcess(pid_t pid, const std::string& name) {
  std::string text = GetFile("/proc/" + std::to_string(pid) + "/" + name);
  std::ranges::replace(text, '\0', ' ');
  return text;
}

class AdministrationTest : public testing::Test {
 protected:
  AdministrationTest() {
    std::string corpus;
    for (int i = 0; i < 120; ++i) {
      corpus += R"({"text":"document )" + std::to_string(i) + " has some words of topic " +
                std::to_string(i % 11) + "\"}\n";
    }
    std::filesystem::create_directories(scratch_ / "b");
    PutFile(corpus_, corpus);
  }
  // Submits a job that nothing runs while `lock` is held. Returns its id.
  std::string SubmitIdleJob(RealBraidd& braidd) const {
    const auto stub = v1::PipelineService::NewStub(braidd.Connect());
    v1::SubmitCorpusRequest request;
    request.mutable_spec()->add_paths(corpus_.string());
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + operator_);
    v1::Job job;
    const grpc::Status status = stub->SubmitCorpus(&context, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }
  // Watches the job until the stream ends.
  static grpc::Status Watch(RealBraidd& braidd, const std::string& id, const std::string& token) {
    const auto stub = v1::PipelineService::NewStub(braidd.Connect());
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::WatchJobRequest request;
    request.set_id(id);
    const auto stream = stub->WatchJob(&context, request);
    for (v1::JobEvent event; stream->Read(&event);) {
    }
    return stream->Finish();
  }

  ScratchDirectory scratch_;
  const std::filesystem::path corpus_ = scratch_ / "b/corpus.jsonl";
  std::string operator_;
};

TEST_F(AdministrationTest, StreamsEndWithTheirToken) {
  RealBraidd braidd(BRAID_BIN_DIR "/braidd", scratch_ / "b", {"--require-token"});
  std::filesystem::create_directories(braidd.home());
  ASSERT_OK_AND_ASSIGN(const auto lock, FileLock::TryTake(braidd.home() / kWorkerLockFile));
  operator_ = CreateToken(braidd.home(), "root", Role::kOperator, 0, "")->token;
  ASSERT_TRUE(braidd.Start());
  const std::string id = SubmitIdleJob(braidd);
  const CreatedToken revoked = CreateToken(braidd.home(), "ann", Role::kViewer, 0, "").value();
  auto watch = std::async(std::launch::async, [&] { return Watch(braidd, id, revoked.token); });
  const CreatedToken brief = CreateToken(braidd.home(), "bob", Role::kViewer, 3, "").value();
  const grpc::Status expired = Watch(braidd, id, brief.token);
  EXPECT_EQ(expired.error_code(), grpc::StatusCode::UNAUTHENTICATED) << expired.error_message();
  EXPECT_THAT(expired.error_message(), HasSubstr("expired"));
  EXPECT_EQ(watch.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
      << "the stream of another token continues";
  ASSERT_OK(RevokeTokens(braidd.home(), revoked.entry.id));
  EXPECT_EQ(watch.get().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AdministrationTest, TheLogContinuesInANewFileAfterSighup) {
  const std::filesystem::path log = scratch_ / "log", old = scratch_ / "log.1";
  RealBraidd braidd(BRAID_BIN_DIR "/braidd", scratch_ / "b", {"--log-file", log.string()});
  ASSERT_TRUE(braidd.Start());
  std::filesystem::rename(log, old);
  ASSERT_EQ(kill(braidd.pid(), SIGHUP), 0);
  EXPECT_TRUE(WaitUntil([&] { return std::filesystem::exists(log); }));
  EXPECT_TRUE(
      WaitUntil([&] { return GetFile(log).find("log opened again") != std::string::npos; }));
  TestProgram jobs({BRAID_BIN_DIR "/braid", "--server", braidd.address(), "jobs"});
  EXPECT_EQ(jobs.Wait(), 0);
  EXPECT_TRUE(WaitUntil([&] { return GetFile(log).find("ListJobs") != std::string::npos; }));
  EXPECT_EQ(GetFile(old).find("ListJobs"), std::string::npos);
  EXPECT_EQ(braidd.Terminate(), 0);
}

TEST_F(AdministrationTest, MetricsAndLogHaveConnectionsDiskAndExpiries) {
  const std::filesystem::path home = scratch_ / "home", log = scratch_ / "log";
  ASSERT_OK(CreateToken(home, "ann", Role::kViewer, 3600, ""));
  TestProgram braidd({BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--home", home.string(),
                      "--metrics", "127.0.0.1:0", "--log-file", log.string()});
  const std::string port = braidd.WaitForOutput("metrics at http://127.0.0.1:", "/metrics");
  const std::string address = "127.0.0.1:" + TextBetween(braidd.out(), " at 127.0.0.1:", ", state");
  TestProgram jobs({BRAID_BIN_DIR "/braid", "--server", address, "jobs"});
  EXPECT_EQ(jobs.Wait(), 0) << jobs.err();
  const std::string metrics = Scrape(std::atoi(port.c_str()));
  EXPECT_THAT(metrics,
              AllOf(HasSubstr("\nbraid_server_connections_accepted_total 1"),
                    HasSubstr("\nbraid_server_connections_refused_total 0"),
                    HasSubstr("\nbraid_server_connections_limit "),
                    HasSubstr("\nbraid_disk_free_bytes "), HasSubstr("\nbraid_disk_size_bytes "),
                    HasSubstr("\nbraid_token_expiry_timestamp_seconds{token=")));
  EXPECT_THAT(GetFile(log), AllOf(HasSubstr("\"warning\""), HasSubstr("(ann) expires in")));
}

TEST_F(AdministrationTest, UnfinishedRequestsDoNotHoldUpMetrics) {
  TestProgram braidd({BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--home",
                      (scratch_ / "home").string(), "--metrics", "127.0.0.1:0"});
  const int port =
      std::atoi(braidd.WaitForOutput("metrics at http://127.0.0.1:", "/metrics").c_str());
  std::vector<int> unfinished;
  for (int i = 0; i < 4; ++i) unfinished.push_back(Send(port, "GET /met"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(Scrape(port), HasSubstr("braid_disk_free_bytes"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  for (const int descriptor : unfinished) close(descriptor);
}

TEST_F(AdministrationTest, AJobNamesTheServersThatDoNotAnswer) {
  for (const std::string& kind : {std::string("embedding"), std::string("neighbor")}) {
    TestProgram submit({BRAID_BIN_DIR "/braid", "--home", (scratch_ / kind).string(), "submit",
                        corpus_.string(), "--" + kind + "-servers", "127.0.0.1:5", "--wait",
                        "--set", "pack.sequence_length=32", "--set", "tokenizer.vocab_size=300"});
    EXPECT_TRUE(WaitUntil([&] {
      return (submit.out() + submit.err()).find("127.0.0.1:5 (connection refused)") !=
             std::string::npos;
    })) << kind
        << submit.out() << submit.err();
    EXPECT_THAT(submit.out() + submit.err(),
                AllOf(HasSubstr("no answer from " + kind + " server 127.0.0.1:5"),
                      HasSubstr("waiting up to 300 s"), HasSubstr("3 attempts")));
    // The status of the job has the same text.
    TestProgram status(
        {BRAID_BIN_DIR "/braid", "--home", (scratch_ / kind).string(), "status", "job-000001"});
    EXPECT_EQ(status.Wait(), 0) << status.err();
    EXPECT_THAT(status.out(), HasSubstr("127.0.0.1:5 (connection refused)"));
    submit.Kill();
  }
}

// Nothing refuses the connection, and nothing answers.
TEST_F(AdministrationTest, AJobNamesASilentServerWithinSeconds) {
  ASSERT_OK_AND_ASSIGN(const ListeningSockets silent, ListeningSockets::Open("127.0.0.1:0"));
  const std::string address = "127.0.0.1:" + std::to_string(silent.port());
  const auto start = std::chrono::steady_clock::now();
  TestProgram submit({BRAID_BIN_DIR "/braid", "--home", (scratch_ / "silent").string(), "submit",
                      corpus_.string(), "--embedding-servers", address, "--wait", "--set",
                      "pack.sequence_length=32", "--set", "tokenizer.vocab_size=300"});
  const std::string expected = "no answer from embedding server " + address + " (no answer)";
  EXPECT_TRUE(WaitUntil([&] { return submit.err().find(expected) != std::string::npos; }))
      << submit.err();
  std::cout << "named after " << (std::chrono::steady_clock::now() - start).count() / 1e9 << " s\n";
  EXPECT_THAT(submit.err(), HasSubstr("waiting up to 300 s"));
}

// A program that has chosen its BLAS core executes itself again, through /proc/self/exe.
TEST_F(AdministrationTest, AProgramThatExecutesItselfAgainKeepsItsName) {
  TestProgram braidd({"/usr/bin/env", "--unset=BRAID_BLAS_CHOSEN", "--unset=OMP_WAIT_POLICY",
                      BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--home",
                      (scratch_ / "named").string()});
  ASSERT_FALSE(braidd.WaitForOutput(" at ", ", state").empty()) << braidd.err();
  EXPECT_THAT(OfProcess(braidd.pid(), "environ"), HasSubstr("BRAID_BLAS_CHOSEN=1"));
  EXPECT_EQ(OfProcess(braidd.pid(), "comm"), "braidd\n");
}

}  // namespace administration_test
}  // namespace braid
