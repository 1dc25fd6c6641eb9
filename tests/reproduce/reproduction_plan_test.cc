#include "reproduce/reproduction_plan.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "client/training_slots.h"
#include "reproduce/corpus_check.h"
#include "reproduce/lory/lory_experiment.h"
#include "reproduce/order/order_experiment.h"
#include "reproduce/routers/routers_experiment.h"
#include "reproduce/smoe_dropout/smoe_dropout_experiment.h"
#include "runs/run_spec.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace reproduction_plan_test {

const DatasetDirs kData = {
    {"similarity", "/data/s"}, {"random", "/data/r"}, {"two-runs", "/data/t"}};

TEST(ReproductionPlanTest, FitsIntoItsTimeOnTwoCores) {
  EXPECT_LE(EstimateTime(QuickPlan(LoryExperiment()), 2, 24'000'000).total(), 720);
  EXPECT_LE(EstimateTime(FullPlan(LoryExperiment()), 2, 72'000'000).total(), 6300);
  EXPECT_GE(EstimateTime(FullPlan(LoryExperiment()), 2, 72'000'000).total(), 5400);
  for (const Experiment* experiment : {&OrderExperiment(), &SmoeDropoutExperiment()}) {
    EXPECT_LE(EstimateTime(QuickPlan(*experiment), 2, 24'000'000).total(), 720) << experiment->name;
  }
  EXPECT_LE(EstimateTime(FullPlan(SmoeDropoutExperiment()), 2, 72'000'000).total(), 7200);
  // A night.
  EXPECT_LE(EstimateTime(FullPlan(OrderExperiment()), 2, 24'000'000).total(), 5 * 3600);
}

TEST(ReproductionPlanTest, LittleHeldOutTextIsScoredInLittleTime) {
  const ReproductionPlan plan = QuickPlan(LoryExperiment());
  const double seconds = EstimateTime(plan, 2, 24'000'000).scoring;
  EXPECT_NEAR(EstimateTime(plan, 2, 2'400'000).scoring, seconds / 10, 1e-9);
  EXPECT_NEAR(EstimateTime(plan, 2, 240'000'000).scoring,
              EstimateTime(plan, 2, 480'000'000).scoring, 1e-9);
}

TEST(ReproductionPlanTest, EverySeedHasEveryArm) {
  const ReproductionPlan full = FullPlan(LoryExperiment());
  EXPECT_EQ(full.runs.size(), 3 * QuickPlan(LoryExperiment()).runs.size());
  EXPECT_EQ(WithSeeds(full, 2).runs.size(), 2 * QuickPlan(LoryExperiment()).runs.size());
  std::set<std::string> names;
  for (const PlannedRun& run : full.runs) names.insert(run.name());
  EXPECT_EQ(names.size(), full.runs.size());
  EXPECT_TRUE(names.contains("moe-random-seed-2"));
  EXPECT_TRUE(names.contains("experts-16-similarity-seed-0"));
}

TEST(ReproductionPlanTest, RunsOfASeedDifferOnlyInTheModel) {
  const ReproductionPlan plan = QuickPlan(LoryExperiment());
  v1::RunSpec first = PlannedRunSpec(plan, plan.runs.front(), kData);
  for (const PlannedRun& run : plan.runs) {
    v1::RunSpec spec = PlannedRunSpec(plan, run, kData);
    for (v1::RunSpec* each : {&spec, &first}) {
      each->clear_name();
      each->clear_model();
      each->clear_upcycling();
      each->clear_dataset_dir();
    }
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(spec, first)) << run.name();
  }
}

// Makes `dataset` a directory that looks like a dataset of this sequence length.
void WriteDataset(const std::filesystem::path& dataset, int sequence_length) {
  std::filesystem::create_directory(dataset);
  nlohmann::json object = {{"domains", {"a"}},
                           {"eos_id", 2},
                           {"key", "0"},
                           {"name", "n"},
                           {"num_documents", 9},
                           {"num_heldout_documents", 1},
                           {"num_instances", 5000},
                           {"num_tokens", 5000 * (sequence_length + 1)},
                           {"order", "SIMILARITY"},
                           {"seed", 0},
                           {"vocab_size", 2048},
                           {"sequence_length", sequence_length}};
  PutFile(dataset / "dataset.json", object.dump());
  // Mixtures compare the tokenizers of their datasets.
  PutFile(dataset / "tokenizer.model", "tokenizer");
}

TEST(ReproductionPlanTest, EveryRunIsAcceptedByTheTrainer) {
  for (const Experiment* experiment :
       {&LoryExperiment(), &OrderExperiment(), &RoutersExperiment(), &SmoeDropoutExperiment()}) {
    const ScratchDirectory scratch;
    DatasetDirs datasets;
    for (const DatasetDefinition& dataset : experiment->datasets) {
      datasets[dataset.name] = scratch / dataset.name;
      WriteDataset(datasets[dataset.name], experiment->sequence_length);
    }
    const ReproductionPlan plan = FullPlan(*experiment);
    for (const PlannedRun& run : plan.runs) {
      const auto resolved = ResolveRunSpec(PlannedRunSpec(plan, run, datasets));
      EXPECT_TRUE(resolved.ok()) << run.name() << ": " << resolved.status();
      if (!resolved.ok()) continue;
      const v1::RunSpec& settings = run.arm.settings;
      EXPECT_EQ(resolved->model().routing().router(), settings.model().routing().router());
      EXPECT_EQ(resolved->model().routing().num_experts(), run.arm.num_experts());
      EXPECT_EQ(DenseSteps(*resolved) > 0, settings.upcycling().dense_fraction() > 0) << run.name();
    }
  }
}

TEST(ReproductionPlanTest, NamesOfRunsAreUnique) {
  for (const Experiment* experiment : {&OrderExperiment(), &SmoeDropoutExperiment()}) {
    const ReproductionPlan full = FullPlan(*experiment);
    std::set<std::string> names;
    for (const PlannedRun& run : full.runs) names.insert(run.name());
    EXPECT_EQ(names.size(), full.runs.size());
    EXPECT_EQ(full.runs.size() % 3, 0);
    EXPECT_LT(QuickPlan(*experiment).runs.size(), full.runs.size() / 3);
  }
}

// Ids of the version before experiments became data; they digest the whole settings.
TEST(ReproductionPlanTest, FindsRunsThatAnEarlierVersionBegan) {
  const DatasetDirs data = {{"similarity", "/data"}, {"random", "/data"}};
  const ReproductionPlan quick = QuickPlan(LoryExperiment());
  EXPECT_EQ(RunRequestId(quick, quick.runs[0], data), "dense-similarity-seed-0-5d40e721df960984");
  EXPECT_EQ(RunRequestId(quick, quick.runs[2], data), "moe-similarity-seed-0-c3ec33a81f089e4d");
  EXPECT_EQ(RunRequestId(quick, quick.runs[4], data), "prefix-similarity-seed-0-d57d5c95b7e7d83e");
  const ReproductionPlan full = FullPlan(LoryExperiment());
  EXPECT_EQ(RunRequestId(full, full.runs[1], data), "dense-random-seed-0-cb32b254c97b46e8");
}

TEST(ReproductionPlanTest, ArmsOfOtherBatchesHaveAsManyTokens) {
  const ReproductionPlan plan = FullPlan(OrderExperiment());
  for (const PlannedRun& run : plan.runs) {
    const v1::RunSpec spec = PlannedRunSpec(plan, run, kData);
    EXPECT_EQ(spec.num_steps() * spec.batch().global_batch_size() * 512,
              static_cast<int64_t>(run.arm.length) * plan.num_tokens_of_run())
        << run.name();
    if (!spec.datasets().empty()) continue;
    const std::string data = run.arm.dataset == kTwoRunsData ? "/data/t"
                             : run.order == v1::SIMILARITY   ? "/data/s"
                                                             : "/data/r";
    EXPECT_EQ(spec.dataset_dir(), data) << run.name();
  }
}

TEST(ReproductionPlanTest, TheCorpusIsCheckedForTheLongestRuns) {
  const ReproductionPlan full = FullPlan(OrderExperiment());
  int64_t longest = 0;
  for (const PlannedRun& run : full.runs) {
    const v1::RunSpec spec = PlannedRunSpec(full, run, kData);
    longest = std::max(longest, spec.num_steps() * spec.batch().global_batch_size() * 512);
  }
  EXPECT_EQ(full.num_tokens_of_longest_run(), longest);
  EXPECT_EQ(longest, 16 * full.num_tokens_of_run());
  const std::vector<std::string> arms = {"moe-4-open"};
  const auto some = WithArms(full, arms);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->num_tokens_of_longest_run(), full.num_tokens_of_run());
  EXPECT_EQ(QuickPlan(OrderExperiment()).num_tokens_of_longest_run(), full.num_tokens_of_run());
}

TEST(ReproductionPlanTest, NamesArmsWithOtherSteps) {
  std::set<std::string> others;
  for (const ArmDefinition& arm : OrderExperiment().arms) {
    if (HasOtherSteps(OrderExperiment(), arm)) others.insert(arm.name);
  }
  EXPECT_TRUE(others.contains("moe-16-open") && others.contains("dense-4-long") &&
              others.contains("dense-64-longest"));
  EXPECT_FALSE(others.contains("moe-4-open") || others.contains("moe-mixed"));
  for (const ArmDefinition& arm : LoryExperiment().arms) {
    EXPECT_FALSE(HasOtherSteps(LoryExperiment(), arm)) << arm.name;
  }
  std::ostringstream out;
  PrintPlan(FullPlan(OrderExperiment()), 2, 24'000'000, out);
  EXPECT_NE(out.str().find("runs of 480 steps (983.0k tokens) unless the arm says otherwise, 2 at"),
            std::string::npos)
      << out.str();
}

TEST(ReproductionPlanTest, MixturesNameThePreparedDatasets) {
  const std::vector<std::string> arms = {"moe-random-first"};
  const auto plan = WithArms(QuickPlan(OrderExperiment()), arms);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->runs.size(), 1);
  const v1::RunSpec spec = PlannedRunSpec(*plan, plan->runs[0], kData);
  EXPECT_EQ(spec.dataset_dir(), "");
  ASSERT_EQ(spec.datasets_size(), 2);
  EXPECT_EQ(spec.datasets(0).dataset(), "/data/s");
  EXPECT_EQ(spec.datasets(1).dataset(), "/data/r");
}

TEST(ReproductionPlanTest, AnUnknownArmIsRefusedWithThoseThatExist) {
  const std::vector<std::string> arms = {"dense", "dance"};
  const auto plan = WithArms(QuickPlan(LoryExperiment()), arms);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(plan.status().message().find(
                "got \"dance\", expected an arm of lory; did you mean \"dense\"?"),
            std::string::npos)
      << plan.status();
}

TEST(ReproductionPlanTest, ARepeatedTextIsSmallerThanTheRun) {
  const ReproductionPlan plan = QuickPlan(SmoeDropoutExperiment());
  const CorpusSource source{.heldout_fraction = 0.01, .num_bytes = 24'000'000};
  const DatasetDefinition& repeated = plan.experiment->datasets[1];
  const double share = 1 - PlannedCorpus(plan, source, repeated).pack().heldout_fraction();
  const double tokens = share * 24'000'000 / CorpusNeeds().bytes_per_token;
  EXPECT_NEAR(static_cast<double>(plan.num_tokens_of_run()) / tokens, 20, 1e-6);
  // A corpus that is smaller than that is used as it is.
  const CorpusSource small{.heldout_fraction = 0.01, .num_bytes = 1000};
  EXPECT_EQ(PlannedCorpus(plan, small, repeated).pack().heldout_fraction(), 0.01);
}

TEST(ReproductionPlanTest, RequestIdsDependOnlyOnTheWork) {
  const ReproductionPlan plan = FullPlan(LoryExperiment());
  std::set<std::string> ids;
  for (const PlannedRun& run : plan.runs) {
    ids.insert(RunRequestId(plan, run, kData));
    EXPECT_EQ(RunRequestId(plan, run, kData), RunRequestId(plan, run, kData));
    EXPECT_NE(RunRequestId(plan, run, kData),
              RunRequestId(plan, run, {{"similarity", "/other"}, {"random", "/others"}}));
  }
  EXPECT_EQ(ids.size(), plan.runs.size());
  EXPECT_NE(RunRequestId(QuickPlan(LoryExperiment()), plan.runs[0], kData),
            RunRequestId(plan, plan.runs[0], kData));
}

TEST(ReproductionPlanTest, TheOrdersShareEverythingButTheOrder) {
  CorpusSource source{.paths = {"a", "b"}, .domain_clusters = 8};
  source.corpus.mutable_ingest()->set_split_bytes(450);
  source.corpus.mutable_embedder()->set_kind("static");
  const ReproductionPlan plan = QuickPlan(LoryExperiment());
  v1::CorpusSpec similarity = PlannedCorpus(plan, source, {"similarity", v1::SIMILARITY});
  EXPECT_EQ(similarity.ingest().split_bytes(), 450);
  EXPECT_EQ(similarity.embedder().kind(), "static");
  EXPECT_EQ(similarity.pack().domain_clusters(), 8);
  similarity.set_order(v1::RANDOM);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      similarity, PlannedCorpus(plan, source, {"random", v1::RANDOM})));
}

TEST(ReproductionPlanTest, ModelsHaveTheScoresThatClaimsNeed) {
  for (const PlannedRun& run : QuickPlan(LoryExperiment()).runs) {
    const size_t expected = run.name() == "moe-similarity-seed-0"     ? 6
                            : run.name() == "dense-similarity-seed-0" ? 2
                                                                      : 1;
    EXPECT_EQ(LoryScores(run).size(), expected) << run.name();
  }
}

TEST(ReproductionPlanTest, LargeCorporaHoldOutASmallerShare) {
  const ReproductionPlan plan = QuickPlan(LoryExperiment());
  EXPECT_EQ(HeldoutFraction(plan, 1'000'000), 0.03);
  EXPECT_EQ(HeldoutFraction(plan, 0), 0.03);
  // 1,024 windows of 512 tokens of 2.3 bytes.
  EXPECT_NEAR(HeldoutFraction(plan, 120'586'240), 0.01, 1e-12);
}

TEST(ReproductionPlanTest, RunsAreAssignedToTheSlotsOfHosts) {
  std::vector<v1::HostSlots> hosts(2);
  hosts[0].set_host("a");
  hosts[0].set_slots(2);
  hosts[1].set_host("b");
  const ReproductionPlan plan = OnHosts(FullPlan(LoryExperiment()), hosts);
  std::map<std::string, int> runs;
  for (const PlannedRun& run : plan.runs) {
    const v1::RunSpec spec = PlannedRunSpec(plan, run, kData);
    ASSERT_EQ(spec.launch().hosts_size(), 1);
    EXPECT_EQ(spec.launch().hosts(0).slots(), 1);
    ++runs[spec.launch().hosts(0).host()];
  }
  EXPECT_EQ(runs, (std::map<std::string, int>{{"a", 28}, {"b", 14}}));
}

TEST(ReproductionPlanTest, RequestsOfARunAskForAllItsScores) {
  const ReproductionPlan plan = QuickPlan(LoryExperiment());
  for (const PlannedRun& run : plan.runs) {
    std::multiset<std::pair<int32_t, int>> planned;
    for (const PlannedScore& score : LoryScores(run)) {
      planned.emplace(score.first_positions, static_cast<int>(score.routing));
    }
    std::multiset<std::pair<int32_t, int>> asked;
    for (const auto& request :
         PlannedEvaluations(plan, run, "run-1", {{kSimilarityData, "/data"}})) {
      EXPECT_TRUE(request.want_windows());
      EXPECT_EQ(request.max_windows_per_domain(), 0);
      EXPECT_EQ(request.models(0), "run-1");
      EXPECT_EQ(request.dataset_dir(), "/data");
      v1::Evaluation evaluation;
      evaluation.set_first_segment_length(request.first_positions());
      for (const int routing : request.routings()) {
        evaluation.set_routing(static_cast<v1::InferenceRouting>(routing));
        asked.emplace(request.first_positions(), static_cast<int>(ScoredRoutingOf(evaluation)));
      }
      evaluation.clear_routing();
      for (const int weights : request.fixed_weights()) {
        evaluation.set_fixed_weights(static_cast<v1::FixedWeights>(weights));
        asked.emplace(request.first_positions(), static_cast<int>(ScoredRoutingOf(evaluation)));
      }
    }
    EXPECT_EQ(asked, planned) << run.name();
  }
}

TEST(ReproductionPlanTest, TokenRoutedModelsAreScoredWithEveryNumberOfExperts) {
  const ReproductionPlan plan = QuickPlan(SmoeDropoutExperiment());
  const auto requests_of = [&](const std::string& arm) {
    const auto run =
        std::ranges::find(plan.runs, arm, [](const PlannedRun& r) { return r.arm.name; });
    return PlannedEvaluations(plan, *run, "run-1", {{kRandomData, "/data"}});
  };
  const auto smoe = requests_of("smoe-dropout");
  ASSERT_EQ(smoe.size(), 1);
  EXPECT_EQ(smoe[0].routings_size(), 1);
  EXPECT_EQ(std::vector<int>(smoe[0].active_experts().begin(), smoe[0].active_experts().end()),
            (std::vector<int>{16, 8, 4, 2, 1}));
  EXPECT_FALSE(smoe[0].has_routing_seed());
  EXPECT_EQ(requests_of("random-each-step")[0].active_experts_size(), 1);
  EXPECT_FALSE(requests_of("random-each-step")[0].has_routing_seed());
  // Fewer than all random experts are chosen by a seed.
  EXPECT_EQ(requests_of("thor")[0].active_experts_size(), 5);
  EXPECT_TRUE(requests_of("thor")[0].has_routing_seed());
  EXPECT_EQ(requests_of("dense")[0].active_experts_size(), 0);
}

TEST(ReproductionPlanTest, ScoresOfTheOrderExperimentAreOfTwoKindsOfWindows) {
  const ReproductionPlan plan = QuickPlan(OrderExperiment());
  const auto requests = PlannedEvaluations(
      plan, plan.runs.front(), "run-1", {{kSimilarityData, "/source"}, {kRelatedData, "/related"}});
  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[0].dataset_dir(), "/source");
  EXPECT_EQ(requests[1].dataset_dir(), "/related");
  // Both datasets hold out the same documents.
  const CorpusSource source{.paths = {"a"}, .heldout_fraction = 0.02};
  const auto& datasets = plan.experiment->datasets;
  const v1::CorpusSpec first = PlannedCorpus(plan, source, datasets.front());
  const v1::CorpusSpec related = PlannedCorpus(plan, source, datasets.back());
  EXPECT_TRUE(related.pack().heldout_by_similarity());
  EXPECT_FALSE(first.pack().heldout_by_similarity());
  EXPECT_EQ(related.pack().heldout_fraction(), first.pack().heldout_fraction());
  EXPECT_EQ(PlannedCorpus(plan, source, datasets[2]).pack().runs_per_instance(), 2);
}

// Simulates the workers in small time steps.
double NaiveFinish(std::vector<double> durations, int slots) {
  std::vector<double> left(slots, 0.0);
  size_t next = 0;
  double time = 0;
  while (true) {
    for (double& slot : left) {
      if (slot <= 1e-9 && next < durations.size()) slot = durations[next++];
    }
    double shortest = 0;
    for (const double slot : left) {
      if (slot > 1e-9 && (shortest == 0 || slot < shortest)) shortest = slot;
    }
    if (shortest == 0) return time;
    time += shortest;
    for (double& slot : left) slot -= shortest;
  }
}

TEST(ReproductionPlanTest, FinishTimeAgreesWithASimulation) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> duration(1, 10);
  for (int slots = 1; slots <= 4; ++slots) {
    std::vector<double> durations(13);
    for (double& value : durations) value = duration(random);
    EXPECT_NEAR(FinishTime(durations, slots), NaiveFinish(durations, slots), 1e-6);
  }
  EXPECT_EQ(FinishTime({}, 2), 0);
}

TEST(ReproductionPlanTest, TheDryRunNamesArmsRunsAndTime) {
  std::ostringstream out;
  PrintPlan(FullPlan(LoryExperiment()), 2, 72'000'000, out);
  EXPECT_NE(out.str().find("expert-choice-token"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("full: 42 runs of 2,000 steps (4.1M tokens), 2 at a time"),
            std::string::npos)
      << out.str();
  EXPECT_NE(out.str().find("in total"), std::string::npos);
  const auto json =
      nlohmann::json::parse(PlanJson(FullPlan(LoryExperiment()), 2, 72'000'000, {"note"}));
  EXPECT_EQ(json["runs"].size(), 42);
  EXPECT_EQ(json["notes"][0], "note");
  EXPECT_GT(json["seconds"]["training"], 3000);
}

}  // namespace reproduction_plan_test
}  // namespace braid
