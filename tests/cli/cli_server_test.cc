// What a server adds: its errors over the wire, and its metrics.
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_fixture.h"

namespace braid {
namespace cli_server_test {

using ::testing::HasSubstr;

class CliServerTest : public CliFixture {};
INSTANTIATE_TEST_SUITE_P(WithBraidd, CliServerTest, ::testing::Values(true));

// wrong_uses_test.cc has the wrong uses without a server; these errors travel over the wire.
TEST_P(CliServerTest, ErrorsOfTheServerNameTheCulprit) {
  const std::string missing = (root_ / "no-such-corpus.jsonl").string();
  ExpectError(Submit({missing}), 3, {missing, "no such file"});
  ExpectError(Submit({File("rejects.jsonl", "not json\n[]\n")}), 1,
              {"empty corpus", "2 records rejected"});
  ExpectError(Submit({Corpus(), "--vocab-size", "10"}), 2, {"vocab_size", "10"});
  ExpectError(Braid({"corpus", "describe", missing}), 3, {missing, "no such file"});
  for (const char* command : {"status", "resume"}) {
    ExpectError(Braid({command, "job-000042"}), 3, {"job-000042", "braid jobs"});
    ExpectError(Braid({command, "run-000042"}), 3, {"run-000042", "braid runs"});
  }
  ExpectError(Braid({"cancel", "../../etc"}), 3, {"../../etc"});
  ExpectError(Train({"--data", "job-000042"}), 3, {"job-000042"});
  ExpectError(Train({"--data", root_.string()}), 3, {root_.string(), "is not a packed dataset"});
  ExpectError(Braid({"eval", "perplexity", root_.string()}), 2, {root_.string(), "is not a model"});
  ExpectError(Braid({"explain", "job-000042", "--instance", "0"}), 3, {"job-000042"});
  ExpectError(Braid({"metrics", "run-000009"}), 3, {"run-000009"});
}

TEST_P(CliServerTest, PrometheusMetricsMatchTheJob) {
  EXPECT_EQ(Scrape().at("braid_jobs{state=\"running\"}"), 0);
  const Outcome outcome = Submit({Corpus(), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const std::map<std::string, double> metrics = Scrape();
  EXPECT_EQ(metrics.at("braid_jobs{state=\"succeeded\"}"), 1);
  const nlohmann::json job = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(job["stages"].size(), 7u);
  for (const nlohmann::json& stage : job["stages"]) {
    const std::string labels =
        "{job=\"job-000001\",stage=\"" + stage["stage"].get<std::string>() + "\"}";
    EXPECT_EQ(metrics.at("braid_stage_complete" + labels), 1);
    // Numbers of 64 bits are strings in proto3 JSON; zeros are omitted.
    for (const char* name : {"documents", "bytes", "documents_per_second", "bytes_per_second",
                             "eta_seconds", "seconds", "rejects", "resident_bytes", "chunk"}) {
      const nlohmann::json value = stage.value(name, nlohmann::json(0));
      const double expected =
          value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
      EXPECT_DOUBLE_EQ(metrics.at("braid_stage_" + std::string(name) + labels), expected) << labels;
    }
    EXPECT_GT(metrics.at("braid_stage_resident_bytes" + labels), 1 << 20);
  }
}

TEST_P(CliServerTest, MetricsSurviveRequestsForOtherPathsAndMethods) {
  for (const char* request : {"GET / HTTP/1.0\r\n\r\n",
                              "GET /favicon.ico HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                              "POST /metrics HTTP/1.0\r\nContent-Length: 1\r\n\r\nx"}) {
    EXPECT_THAT(HttpResponse(request), HasSubstr(" 404 Not Found\r\n")) << request;
  }
  EXPECT_THAT(HttpResponse("PUT /metrics HTTP/1.0\r\n\r\n"), HasSubstr("HTTP/1.0 40"));
  EXPECT_FALSE(Scrape().empty());
}

TEST_P(CliServerTest, AnInterruptedWatchNamesTheCommandsForTheJob) {
  // The job waits, since no embedding server answers.
  const Outcome submitted =
      Braid({"submit", Corpus(), "--vocab-size", "300", "--embedding-servers", "127.0.0.1:1"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.errors;
  for (const Arguments& command : {Arguments{"status", "job-000001", "--watch"},
                                   Arguments{"resume", "job-000001", "--wait"}}) {
    Arguments all = {BRAID_BIN_DIR "/braid", "--server", address_};
    all.insert(all.end(), command.begin(), command.end());
    TestProgram watch(all);
    EXPECT_TRUE(WaitUntil([&] { return watch.err().find("ingest") != std::string::npos; }));
    watch.Signal(SIGINT);
    EXPECT_EQ(watch.Wait(), 130);
    EXPECT_THAT(watch.err(),
                HasSubstr("braid: stopped watching; job-000001 continues; follow it with: braid "
                          "status job-000001 --watch; stop it with: braid cancel job-000001\n"));
  }
  EXPECT_EQ(Braid({"cancel", "job-000001"}).exit_code, 0);
}

TEST_P(CliServerTest, MetricsNeedAFreePort) {
  const std::string taken = "127.0.0.1:" + std::to_string(metrics_port_);
  const Outcome outcome = Run(
      {BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--metrics", taken, "--home", home()});
  EXPECT_EQ(outcome.exit_code, 4) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr(taken));
}

}  // namespace cli_server_test
}  // namespace braid
