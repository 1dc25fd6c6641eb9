// End-to-end tests of the programs: every error has one message and the documented exit code, with
// services in the process and with a braidd.
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_fixture.h"

namespace braid {
namespace cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CliTest : public CliFixture {};
INSTANTIATE_TEST_SUITE_P(Services, CliTest, ::testing::Bool(), [](const auto& services) {
  return services.param ? "WithBraidd" : "Embedded";
});

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
                                  HasSubstr("1 document of more than 4 bytes: 0.00 MB, 66.7 %"),
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
  // Documents that a fourth step would read.
  const auto later = nlohmann::json::parse(
      Braid({"explain", "job-000001", "--seed", "5", "--step", "4", "--json"}).output);
  int num_untrained = 0;
  for (const auto& instance : later["instances"]) {
    const std::string document = instance["spans"][0]["document"];
    const std::string text = Braid({"explain", "run-000001", "--document", document}).output;
    const auto explained = nlohmann::json::parse(
        Braid({"explain", "run-000001", "--document", document, "--json"}).output);
    bool trained = false;
    for (const auto& span : explained["spans"]) trained |= !span["steps"].empty();
    EXPECT_EQ(explained.value("trained_on", !trained), trained) << explained.dump(1);
    EXPECT_THAT(text, HasSubstr(trained ? " trained on\n" : "not trained on by run-000001\n"));
    num_untrained += trained ? 0 : 1;
  }
  EXPECT_GT(num_untrained, 0);
  ASSERT_EQ(Submit({Corpus(), "--order", "SOURCE"}).exit_code, 0) << Contents(root_ / "err");
  ExpectError(Braid({"explain", "job-000002", "--run", "run-000001", "--step", "1"}), 2,
              {"run-000001", "the dataset of job-000002"});
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
