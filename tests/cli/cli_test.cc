// End-to-end tests of the programs: every error has one message and the documented exit code, with
// services in the process and with a braidd.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/program.h"

namespace braid {
namespace cli_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;  // 128 + the signal's number when one ended the program
  std::string output, errors;
};

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A temporary directory and, when the parameter is true, a braidd that uses it.
class CliTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "cli_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    if (GetParam()) StartServer();
  }

  void TearDown() override {
    if (server_.has_value()) {
      server_->Signal(SIGTERM);
      EXPECT_EQ(server_->Wait(), 0) << server_->err();
    }
    fs::remove_all(root_);
  }

  void StartServer() {
    server_.emplace(Arguments{BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--metrics",
                              "127.0.0.1:0", "--home", home(), "--allow", root_.string()});
    // "braidd serves ... at 127.0.0.1:PORT, state in ..."
    address_ = server_->WaitForOutput(" at ", ", state");
    ASSERT_FALSE(address_.empty()) << server_->err();
    metrics_port_ =
        std::atoi(server_->WaitForOutput("metrics at http://127.0.0.1:", "/metrics").c_str());
    ASSERT_GT(metrics_port_, 0);
  }

  // Returns the samples of GET /metrics: "name{labels}" to value.
  std::map<std::string, double> Scrape() const {
    const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(metrics_port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
    EXPECT_EQ(send(socket_fd, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    std::string response;
    char buffer[4096];
    for (ssize_t n; (n = recv(socket_fd, buffer, sizeof buffer, 0)) > 0;)
      response.append(buffer, n);
    close(socket_fd);
    EXPECT_THAT(response, HasSubstr("200 OK"));
    std::map<std::string, double> values;
    std::istringstream lines(response.substr(response.find("\r\n\r\n") + 4));
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      const size_t space = line.rfind(' ');
      values[line.substr(0, space)] = std::strtod(line.c_str() + space, nullptr);
    }
    return values;
  }

  // Runs braid with the arguments, connected to the braidd when there is one.
  Outcome Braid(const Arguments& arguments, std::optional<uint64_t> max_file_bytes = {}) {
    Arguments all = {BRAID_BIN_DIR "/braid", "--home", home()};
    if (!address_.empty()) all.insert(all.end(), {"--server", address_});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Run(all, max_file_bytes);
  }

  Outcome Run(const Arguments& arguments, std::optional<uint64_t> max_file_bytes = {}) {
    TestProgram program(
        arguments,
        {.output = root_ / "out", .errors = root_ / "err", .max_file_bytes = max_file_bytes});
    Outcome outcome;
    outcome.exit_code = program.Wait();
    outcome.output = Contents(root_ / "out");
    outcome.errors = Contents(root_ / "err");
    return outcome;
  }

  std::string home() const { return (root_ / "home").string(); }

  std::string File(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name, std::ios::binary) << text;
    return (root_ / name).string();
  }

  // Writes enough varied text for a vocabulary of 300 pieces and several instances.
  std::string Corpus(const std::string& name = "corpus.jsonl") {
    std::ostringstream lines;
    unsigned state = 1;
    for (int document = 0; document < 400; ++document) {
      lines << "{\"text\": \"";
      for (int word = 0; word < 40; ++word) {
        for (int letter = 0; letter < 5; ++letter) {
          state = state * 1664525 + 1013904223;
          lines << static_cast<char>('a' + (state >> 24) % 26);
        }
        lines << ' ';
      }
      lines << "\", \"domain\": \"" << (document % 2 == 0 ? "even" : "odd") << "\"}\n";
    }
    return File(name, lines.str());
  }

  Outcome Submit(const Arguments& more, std::optional<uint64_t> max_file_bytes = {}) {
    Arguments all = {"submit", "--wait", "--set", "tokenizer.vocab_size=300"};
    all.insert(all.end(), {"--set", "pack.sequence_length=64"});
    all.insert(all.end(), more.begin(), more.end());
    return Braid(all, max_file_bytes);
  }

  // Returns the manifest of the only packed dataset: names, lengths and checksums of its files.
  std::string PackManifest() const {
    for (const auto& entry : fs::directory_iterator(fs::path(home()) / "store")) {
      if (entry.path().filename().string().rfind("pack-", 0) == 0) {
        return Contents(entry.path() / "manifest.json");
      }
    }
    return "";
  }

  Outcome Train(const Arguments& more) {
    Arguments all = {"train", "--wait"};
    for (const char* setting : {"d_model=16", "num_layers=1", "num_heads=2", "d_ff=32"}) {
      all.insert(all.end(), {"--set", std::string("model.") + setting});
    }
    all.insert(all.end(), more.begin(), more.end());
    return Braid(all);
  }

  fs::path root_;
  std::optional<TestProgram> server_;
  std::string address_;
  int metrics_port_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Services, CliTest, ::testing::Bool(), [](const auto& services) {
  return services.param ? "WithBraidd" : "Embedded";
});

// Expects the exit code, one message that begins with the program's name and contains `parts`, and
// no sign of a crash.
void ExpectError(const Outcome& outcome, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("braid: "));
  for (const std::string& part : parts) EXPECT_THAT(outcome.errors, HasSubstr(part));
  EXPECT_THAT(outcome.errors,
              AllOf(Not(HasSubstr("terminate called")), Not(HasSubstr("libprotobuf")),
                    Not(HasSubstr("what()")), Not(HasSubstr("Aborted")), Not(HasSubstr("    @ "))));
}

TEST_P(CliTest, DescribesACorpus) {
  const std::string corpus = File("mixed.jsonl",
                                  "{\"text\": \"abc\", \"kind\": \"x\"}\n"
                                  "{\"text\": \"defghi\", \"kind\": \"y\"}\n"
                                  "no json\n");
  const Outcome table =
      Braid({"corpus", "describe", corpus, "--domain-field", "kind", "--long-bytes", "4"});
  EXPECT_EQ(table.exit_code, 0) << table.errors;
  EXPECT_THAT(table.output, AllOf(HasSubstr("x               1  0.00  33.3 %"),
                                  HasSubstr("a field of each record"),
                                  HasSubstr("1 documents of more than 4 bytes: 0.00 MB, 66.7 %"),
                                  HasSubstr("invalid json  1")));
  const Outcome json =
      Braid({"--json", "corpus", "describe", corpus, "--set", "ingest.id_field=x"});
  EXPECT_EQ(json.exit_code, 0) << json.errors;
  const auto description = nlohmann::json::parse(json.output);
  EXPECT_EQ(description["num_documents"], "2");
  EXPECT_EQ(description["domain_source"], "DOMAIN_FROM_PATH");
  EXPECT_EQ(description["domains"][0]["name"], "mixed");
}

TEST_P(CliTest, TrainsFromACorpusAndReportsLaterErrors) {
  Outcome job = Submit({Corpus("a 'quoted' corpus.jsonl"), "--json"});
  ASSERT_EQ(job.exit_code, 0) << job.errors;
  EXPECT_EQ(nlohmann::json::parse(job.output).at("id"), "job-000001");
  ExpectError(Braid({"resume", "job-000001"}), 1, {"job-000001"});

  const Arguments small = {"--data", "job-000001", "--steps", "2", "--threads", "1"};
  ASSERT_EQ(Train(small).exit_code, 0) << Contents(root_ / "err");
  ExpectError(Braid({"resume", "run-000001"}), 1, {"has finished"});
  EXPECT_THAT(Braid({"stop", "run-000001"}).output, HasSubstr("already ended"));
  EXPECT_EQ(Braid({"status", "run-000001", "--watch"}).exit_code, 0);

  ExpectError(Braid({"generate", "run-000001", "--prompt", std::string(4000, 'q')}), 2,
              {"prompt: got ", "expected at most 64"});

  const std::string board = (root_ / "board").string();
  EXPECT_THAT(Braid({"metrics", "run-000001", "--tensorboard", board}).output,
              HasSubstr("wrote " + board + "/run-000001-"));
  EXPECT_THAT(Braid({"metrics", "run-000001", "--csv", "-"}).output, HasSubstr("\r\n2,"));
  EXPECT_THAT(Braid({"metrics", "run-000001"}).output, HasSubstr("learning_rate"));

  for (const Arguments& reading :
       {Arguments{"jobs"}, Arguments{"runs"}, Arguments{"status", "job-000001"},
        Arguments{"status", "run-000001"},
        Arguments{"eval", "perplexity", "run-000001", "--threads", "1"},
        Arguments{"metrics", "run-000001"}, Arguments{"model", "describe", "tiny"},
        Arguments{"model", "describe", "1.5B/32E", "--forecast", "--world", "64"}}) {
    Arguments all = {"--json"};
    all.insert(all.end(), reading.begin(), reading.end());
    const Outcome outcome = Braid(all);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_TRUE(nlohmann::json::accept(outcome.output)) << reading[0] << ": " << outcome.output;
  }
}

TEST_P(CliTest, ExplainsStepsInstancesAndDocuments) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  const auto json = [&](Arguments arguments) {
    arguments.insert(arguments.begin(), {"explain", "job-000001", "--json"});
    const Outcome outcome = Braid(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output);
  };
  // A step, its instances, a document of one of them, and back to the step.
  const Arguments order = {"--global-batch-size", "3", "--seed", "7"};
  Arguments step = {"--step", "2"};
  step.insert(step.end(), order.begin(), order.end());
  const nlohmann::json of_step = json(step);
  ASSERT_EQ(of_step["instances"].size(), 3u);
  const nlohmann::json& instance = of_step["instances"][1];
  const std::string id = instance["spans"][0]["document"];
  Arguments document = {"--document", id};
  document.insert(document.end(), order.begin(), order.end());
  const nlohmann::json of_document = json(document);
  EXPECT_EQ(of_document["fate"], "DOCUMENT_TRAINED_ON");
  bool found = false;
  for (const nlohmann::json& span : of_document["spans"]) {
    found |=
        span["instance"] == instance["instance"] && span["steps"] == nlohmann::json::array({2});
  }
  EXPECT_TRUE(found) << of_document.dump(1);
  EXPECT_EQ(json({"--instance", instance["instance"]})["instances"][0], instance);

  EXPECT_THAT(Braid({"explain", "job-000001", "--document", id}).output,
              AllOf(HasSubstr("trained on"), HasSubstr("INSTANCE")));
  EXPECT_THAT(Braid({"explain", "job-000001", "--step", "1"}).output,
              AllOf(HasSubstr("batch 4, seed 0"), HasSubstr("COSINE")));
  EXPECT_THAT(Braid({"explain", "--help"}).output, HasSubstr("Examples:"));
}

TEST_P(CliTest, ExplainsTheStepsOfARun) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  ASSERT_EQ(
      Train({"--data", "job-000001", "--steps", "3", "--threads", "1", "--seed", "5"}).exit_code, 0)
      << Contents(root_ / "err");
  const Outcome of_run = Braid({"explain", "run-000001", "--step", "3", "--json"});
  ASSERT_EQ(of_run.exit_code, 0) << of_run.errors;
  const Outcome of_both =
      Braid({"explain", "job-000001", "--run", "run-000001", "--step", "3", "--json"});
  EXPECT_EQ(of_run.output, of_both.output);
  const Outcome by_seed = Braid({"explain", "job-000001", "--seed", "5", "--step", "3", "--json"});
  EXPECT_EQ(nlohmann::json::parse(of_run.output)["instances"],
            nlohmann::json::parse(by_seed.output)["instances"]);
  ASSERT_EQ(Submit({Corpus(), "--order", "RANDOM"}).exit_code, 0) << Contents(root_ / "err");
  ExpectError(Braid({"explain", "job-000002", "--run", "run-000001", "--step", "1"}), 2,
              {"run-000001", "the dataset of job-000002"});
}

class CliServerTest : public CliTest {};
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
#ifdef BRAID_ASAN
  GTEST_SKIP() << "the threads of civetweb, which serves them, have 100 KiB of stack: too little";
#endif
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

TEST_P(CliServerTest, MetricsNeedAFreePort) {
  const std::string taken = "127.0.0.1:" + std::to_string(metrics_port_);
  const Outcome outcome = Run(
      {BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--metrics", taken, "--home", home()});
  EXPECT_EQ(outcome.exit_code, 4) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr(taken));
}

class CliAloneTest : public CliTest {};
INSTANTIATE_TEST_SUITE_P(Embedded, CliAloneTest, ::testing::Values(false));

TEST_P(CliAloneTest, ExportsAndImportsModels) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  const Arguments small = {"--data", "job-000001", "--steps", "2", "--threads", "1"};
  Arguments experts = small;
  experts.insert(experts.end(), {"--experts", "4"});
  ASSERT_EQ(Train(experts).exit_code, 0) << Contents(root_ / "err");
  const std::string out = (root_ / "out dir").string(), back = (root_ / "back").string();
  const Outcome exported =
      Braid({"export", "run-000001", "-o", out, "--bake", "@" + File("prompt", "abc"), "--json"});
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_EQ(nlohmann::json::parse(exported.output).at("architecture"), "LlamaForCausalLM");
  ExpectError(Braid({"export", "run-000001", "-o", out}), 1, {out, "--force"});
  ASSERT_EQ(Braid({"import", out, "--output", back}).exit_code, 0) << Contents(root_ / "err");
  EXPECT_EQ(Braid({"generate", back, "--prompt", "abc", "--max-tokens", "2"}).exit_code, 0);
  const Outcome run = Braid({"train", "--data", "job-000001", "--init-from", back, "--experts", "2",
                             "--steps", "2", "--threads", "1", "--wait", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(nlohmann::json::parse(run.output)["spec"]["init_from"], back);
  EXPECT_EQ(Braid({"train", "--data", "job-000001", "--init-from", "run-000002", "--steps", "1",
                   "--wait"})
                .exit_code,
            0)
      << Contents(root_ / "err");
}

TEST_P(CliAloneTest, ValidatesAndBranchesADecayFromAStableRun) {
  ASSERT_EQ(Submit({Corpus(), "--set", "pack.heldout_fraction=0.1"}).exit_code, 0);
  ASSERT_EQ(Train({"--data", "job-000001", "--steps", "8", "--threads", "1", "--schedule", "wsd",
                   "--decay", "2", "--validate-every", "4", "--set", "checkpoint.every_steps=2",
                   "--set", "checkpoint.keep_every_steps=2"})
                .exit_code,
            0)
      << Contents(root_ / "err");
  EXPECT_THAT(Braid({"status", "run-000001"}).output, HasSubstr("at the last validation, best"));
  ExpectError(Braid({"train", "--branch", "run-000001@3"}), 3,
              {"run-000001 has no checkpoint of step 3; the nearest are 2 and 4"});
  ExpectError(Braid({"train", "--branch", "run-000001@8"}), 1, {"got step 8, expected 1 to 6"});
  const Outcome branch =
      Braid({"train", "--branch", "run-000001@4", "--decay", "0.2", "--wait", "--json"});
  ASSERT_EQ(branch.exit_code, 0) << branch.errors;
  const auto run = nlohmann::json::parse(branch.output);
  EXPECT_EQ(run["spec"]["num_steps"], "5");
  EXPECT_EQ(run["latest"]["step"], "5");
  EXPECT_EQ(run["attempts"], 1);
}

TEST_P(CliAloneTest, TrainsOnAMixtureAndExplainsIt) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0) << Contents(root_ / "err");
  const auto job = nlohmann::json::parse(Braid({"status", "job-000001", "--json"}).output);
  const std::string dataset = job["result"]["dataset_dir"];
  ASSERT_EQ(Submit({Corpus("second.jsonl"), "--set", "pack.sequence_length=32"}).exit_code, 0);
  const std::string mixture =
      "datasets=[{dataset: \"job-000001\", share: .5}, {dataset: \"job-000002\", share: .5}]";
  ExpectError(Train({"--set", mixture}), 2, {"datasets[1]", "sequence_length 32", "expected 64"});
  ASSERT_EQ(
      Braid({"submit", Corpus("third.jsonl"), "--wait", "--tokenizer", dataset + "/tokenizer.model",
             "--set", "pack.sequence_length=64", "--set", "seed=5"})
          .exit_code,
      0)
      << Contents(root_ / "err");
  const std::string fitting =
      "datasets=[{dataset: \"job-000001\", share: .5}, {dataset: \"job-000003\", share: .5}]";
  ASSERT_EQ(Train({"--set", fitting, "--steps", "4", "--threads", "1"}).exit_code, 0)
      << Contents(root_ / "err");
  const Outcome step = Braid({"explain", "run-000001", "--step", "2", "--json"});
  ASSERT_EQ(step.exit_code, 0) << step.errors;
  const auto explained = nlohmann::json::parse(step.output);
  ASSERT_EQ(explained["datasets"].size(), 2u);
  for (const auto& part : explained["datasets"]) EXPECT_EQ(part["instances"].size(), 2u);
  const std::string document = explained["datasets"][1]["instances"][0]["spans"][0]["document"];
  EXPECT_EQ(Braid({"explain", "run-000001", "--document", document}).exit_code, 0)
      << Contents(root_ / "err");
  ExpectError(Braid({"explain", "run-000001", "--instance", "0"}), 2, {"--instance", "job-000001"});
}

TEST_P(CliAloneTest, JobFailsOnAFullDiskAndResumes) {
  // A file size limit stands for a full disk: the write fails either way.
  const std::string corpus = Corpus();
  ExpectError(Submit({corpus}, 512 << 10), 1, {"job-000001", "document_frequencies", "ulimit -f"});
  EXPECT_EQ(Braid({"resume", "job-000001", "--wait"}).exit_code, 0) << Contents(root_ / "err");
  // The result equals that of an undisturbed job.
  const std::string mended = PackManifest();
  EXPECT_THAT(mended, HasSubstr("instances.bin"));
  fs::rename(home(), root_ / "mended");
  ASSERT_EQ(Submit({corpus}).exit_code, 0) << Contents(root_ / "err");
  EXPECT_EQ(PackManifest(), mended);
}

TEST_P(CliAloneTest, ProgramsOfThisMachineAreRefusedWithAServer) {
  ExpectError(Braid({"--server", "127.0.0.1:1", "--mpirun", "/opt/mpirun", "runs"}), 2,
              {"--mpirun", "its own programs"});
}

TEST_P(CliTest, DeletesJobsAndRuns) {
  ASSERT_EQ(Submit({Corpus()}).exit_code, 0);
  const Outcome trained =
      Train({"--data", "job-000001", "--segment-length", "16", "--steps", "2", "--threads", "1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  ExpectError(Braid({"delete", "job-000001"}), 2, {"not confirmed", "--yes", "--dry-run"});
  ExpectError(Braid({"delete", "job-000001", "--yes"}), 1,
              {"job-000001 is needed: run-000001 uses store/pack-"});
  ExpectError(Braid({"delete", "run-000077", "--yes"}), 3, {"run-000077"});
  ExpectError(Braid({"delete", "--yes"}), 2, {"id"});
  ExpectError(Braid({"gc", "--yes"}), 2, {"--keep", "--older-than"});
  ExpectError(Braid({"gc", "--older-than", "1 month", "--yes"}), 2, {"--older-than", "30m"});
  ExpectError(Braid({"gc", "--keep", "-1", "--yes"}), 2, {"--keep"});
  const Outcome kept = Braid({"gc", "--older-than", "30d", "--dry-run"});
  EXPECT_EQ(kept.exit_code, 0) << kept.errors;
  EXPECT_THAT(kept.output, HasSubstr("would free 0B (0 bytes)"));
  const Outcome plan = Braid({"delete", "job-000001", "run-000001", "--dry-run"});
  EXPECT_THAT(plan.output, AllOf(HasSubstr("would be deleted"), HasSubstr("run-000001")));
  const Outcome deleted = Braid({"--json", "delete", "job-000001", "run-000001", "--yes"});
  ASSERT_EQ(deleted.exit_code, 0) << deleted.errors;
  EXPECT_THAT(deleted.output, AllOf(HasSubstr("\"id\": \"run-000001\""), HasSubstr("freed_bytes")));
  EXPECT_EQ(PackManifest(), "");
  EXPECT_THAT(Braid({"jobs"}).output, Not(HasSubstr("job-000001")));
  EXPECT_THAT(Braid({"runs"}).output, Not(HasSubstr("run-000001")));
  ExpectError(Braid({"delete", "job-000001", "--yes"}), 3, {"job-000001"});
}

}  // namespace cli_test
}  // namespace braid
