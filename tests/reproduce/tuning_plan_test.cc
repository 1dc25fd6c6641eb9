#include "reproduce/tuning_plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/tasks/task_spec.h"
#include "reproduce/emoe/emoe_experiment.h"
#include "reproduce/molex/molex_experiment.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace tuning_plan_test {

using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;

const DatasetDirs kData = {{"random", "/data/r"}};
const Experiment* const kExperiments[] = {&EmoeExperiment(), &MolexExperiment()};

const PlannedRun& RunOf(const ReproductionPlan& plan, std::string_view name) {
  return *std::ranges::find(plan.runs, name, &PlannedRun::name);
}

TEST(TuningPlanTest, FitsIntoItsTimeOnTwoCores) {
  for (const Experiment* experiment : kExperiments) {
    EXPECT_LE(EstimateTime(QuickPlan(*experiment), 2, 24'000'000).total(), 720) << experiment->name;
    EXPECT_LE(EstimateTime(FullPlan(*experiment), 2, 72'000'000).total(), 7200) << experiment->name;
  }
}

TEST(TuningPlanTest, EveryArmIsTunedOnItsTasksAfterItsBase) {
  for (const Experiment* experiment : kExperiments) {
    const ReproductionPlan plan = FullPlan(*experiment);
    size_t num_runs = 0;
    for (const ArmDefinition& arm : experiment->arms) {
      num_runs += arm.tuning.has_value() ? 2 + arm.tuning->extra_tasks.size() : 1;
    }
    EXPECT_EQ(plan.runs.size(), 3 * num_runs);
    std::set<std::string> names;
    for (size_t i = 0; i < plan.runs.size(); ++i) {
      names.insert(plan.runs[i].name());
      if (!plan.runs[i].arm.tuning.has_value()) continue;
      const size_t base = BaseRunOf(plan, plan.runs[i]);
      EXPECT_LT(base, i);
      EXPECT_EQ(plan.runs[base].seed, plan.runs[i].seed);
      EXPECT_TRUE(plan.runs[base].task.empty());
    }
    EXPECT_EQ(names.size(), plan.runs.size());
    EXPECT_TRUE(names.contains("plain-sst2-seed-2"));
  }
}

// The same corpus and the same requests, so that the second paper finds the base models and the
// plain runs of the first.
TEST(TuningPlanTest, PapersShareTheirBaseModels) {
  const ReproductionPlan emoe = QuickPlan(EmoeExperiment()), molex = QuickPlan(MolexExperiment());
  const CorpusSource source{.paths = {"/text"}, .num_bytes = 24'000'000};
  EXPECT_TRUE(
      MessageDifferencer::Equals(PlannedCorpus(emoe, source, EmoeExperiment().datasets.front()),
                                 PlannedCorpus(molex, source, MolexExperiment().datasets.front())));
  EXPECT_EQ(HeldoutFraction(emoe, source.num_bytes), HeldoutFraction(molex, source.num_bytes));
  EXPECT_EQ(RunRequestId(emoe, emoe.runs.front(), kData),
            RunRequestId(molex, molex.runs.front(), kData));
  const auto plain = [](const ReproductionPlan& plan) {
    return TunedRunSpec(plan, RunOf(plan, "plain-mawps-seed-0"), "run-000001", "/data/mawps");
  };
  EXPECT_TRUE(MessageDifferencer::Equals(plain(emoe), plain(molex)));
}

TEST(TuningPlanTest, RunsOfATaskDifferOnlyInTheMethod) {
  for (const Experiment* experiment : kExperiments) {
    const ReproductionPlan plan = QuickPlan(*experiment);
    const auto common = [&](const PlannedRun& run) {
      v1::RunSpec spec = TunedRunSpec(plan, run, "run-000001", "/data/sst2");
      EXPECT_EQ(spec.init_from(), "run-000001");
      EXPECT_EQ(spec.dataset_dir(), "/data/sst2");
      EXPECT_EQ(spec.length().epochs(), plan.epochs * run.arm.tuning->epochs);
      spec.clear_name();
      spec.clear_model();
      spec.clear_finetuning();
      spec.clear_length();
      if (run.arm.name.starts_with("full-")) spec.mutable_optimizer()->set_learning_rate(2e-3);
      return spec;
    };
    const v1::RunSpec first = common(RunOf(plan, "plain-sst2-seed-0"));
    for (const PlannedRun& run : plan.runs) {
      if (run.task != "sst2") continue;
      EXPECT_TRUE(MessageDifferencer::Equals(common(run), first)) << run.name();
    }
  }
}

TEST(TuningPlanTest, ArmsBringTheirBase) {
  const std::vector<std::string> names = {"emoe"};
  const auto plan = WithArms(QuickPlan(EmoeExperiment()), names);
  ASSERT_TRUE(plan.ok());
  std::vector<std::string> runs;
  for (const PlannedRun& run : plan->runs) runs.push_back(run.name());
  EXPECT_THAT(runs, ElementsAre("base-random-seed-0", "emoe-sst2-seed-0", "emoe-mawps-seed-0"));
  const std::vector<std::string> unknown = {"em"};
  EXPECT_FALSE(WithArms(QuickPlan(EmoeExperiment()), unknown).ok());
}

TEST(TuningPlanTest, ScoresOwnAndFurtherTasksWithAndWithoutConversion) {
  const ReproductionPlan plan = QuickPlan(EmoeExperiment());
  const auto scores = [&](const std::string& name) {
    return PlannedTaskScores(plan, RunOf(plan, name), "run-000007", "/tasks");
  };
  const std::vector<PlannedTaskScore> emoe = scores("emoe-sst2-seed-0");
  ASSERT_EQ(emoe.size(), 2);
  const v1::EvaluateTasksRequest& request = emoe[0].request;
  std::vector<std::string> tasks;
  for (const v1::TaskSpec& task : request.tasks()) tasks.push_back(task.name());
  EXPECT_THAT(tasks, ElementsAre("sst2", "amazon", "yelp"));
  EXPECT_TRUE(request.want_examples());
  EXPECT_TRUE(request.has_num_shots());
  EXPECT_EQ(request.num_shots(), 0);
  EXPECT_EQ(request.max_examples(), plan.max_examples);
  EXPECT_TRUE(request.active_experts().empty());
  EXPECT_EQ(emoe[1].scoring, "recomposed");
  EXPECT_THAT(emoe[1].request.active_experts(), ElementsAre(16));
  EXPECT_EQ(scores("emoe-mawps-seed-0")[0].request.tasks_size(), 1);
  const std::vector<PlannedTaskScore> plain = scores("plain-sst2-seed-0");
  ASSERT_EQ(plain.size(), 2);
  EXPECT_FALSE(plain[0].conversion.has_value());
  ASSERT_TRUE(plain[1].conversion.has_value());
  EXPECT_EQ(plain[1].conversion->model(), "run-000007");
  // The experts are those of the routed arm.
  EXPECT_TRUE(MessageDifferencer::Equals(
      plain[1].conversion->split(),
      PlannedSplit(*RunOf(plan, "emoe-sst2-seed-0").arm.tuning->split, 0, "x").split()));
}

// Only what the claims compare out of domain is scored there, and the forecast counts no more.
TEST(TuningPlanTest, FurtherTasksAreScoredWhereClaimsNeedThem) {
  const auto num_tasks = [](const Experiment& experiment, const std::string& arm, size_t scoring) {
    const ReproductionPlan plan = FullPlan(experiment);
    const PlannedRun& run = RunOf(plan, arm + "-sst2-seed-0");
    return PlannedTaskScores(plan, run, "run-000007", "/tasks")[scoring].request.tasks_size();
  };
  EXPECT_EQ(num_tasks(EmoeExperiment(), "plain", 0), 3);
  EXPECT_EQ(num_tasks(EmoeExperiment(), "plain", 1), 1);
  EXPECT_EQ(num_tasks(EmoeExperiment(), "every-layer", 0), 1);
  for (const Experiment* experiment : kExperiments) {
    const ReproductionPlan plan = FullPlan(*experiment);
    const PlannedRun& reviews = RunOf(plan, "plain-yelp-30-percent-seed-0");
    const v1::EvaluateTasksRequest request = PlannedTaskScores(plan, reviews, "r", "/t")[0].request;
    std::vector<std::string> tasks;
    for (const v1::TaskSpec& task : request.tasks()) tasks.push_back(task.name());
    EXPECT_THAT(tasks, ElementsAre("yelp", "sst2", "amazon")) << experiment->name;
  }
  EXPECT_EQ(num_tasks(MolexExperiment(), "molex", 0), 3);
  EXPECT_EQ(num_tasks(MolexExperiment(), "two-layers", 0), 1);
  const ReproductionPlan plan = FullPlan(EmoeExperiment());
  const auto seconds = [&](const std::string& arm) {
    return PlannedScoringSeconds(plan, RunOf(plan, arm + "-sst2-seed-0"), 72'000'000);
  };
  EXPECT_DOUBLE_EQ(seconds("emoe"), 4 * seconds("every-layer"));
}

// Tasks that few arms are tuned on, by --full only: shares of examples, and tasks together.
TEST(TuningPlanTest, ExtraTasksAreOfTheArmsThatNameThem) {
  const ReproductionPlan plan = FullPlan(EmoeExperiment());
  std::set<std::string> names;
  for (const PlannedRun& run : plan.runs) names.insert(run.name());
  EXPECT_TRUE(names.contains("emoe-joint-seed-1"));
  EXPECT_TRUE(names.contains("plain-mawps-30-percent-seed-2"));
  EXPECT_FALSE(names.contains("random-joint-seed-0"));
  EXPECT_TRUE(names.contains("emoe-yelp-30-percent-seed-0"));
  for (const PlannedRun& run : QuickPlan(EmoeExperiment()).runs) {
    EXPECT_THAT(run.task, testing::AnyOf("", "sst2", "mawps"));
  }
  const PlannedRun& joint = RunOf(plan, "plain-joint-seed-0");
  EXPECT_THAT(TaskOfRun(EmoeExperiment(), joint).trained(),
              ElementsAre("sst2", "mawps", "agnews", "yelp", "e2e"));
  EXPECT_EQ(TaskOfRun(EmoeExperiment(), joint).share, 0.3);
  EXPECT_GT(PlannedTrainingSeconds(plan, joint),
            2 * PlannedTrainingSeconds(plan, RunOf(plan, "plain-yelp-30-percent-seed-0")));
  const std::vector<PlannedTaskScore> scores = PlannedTaskScores(plan, joint, "run-000007", "/t");
  ASSERT_EQ(scores.size(), 1);
  EXPECT_EQ(scores[0].request.tasks_size(), 5);
  const PlannedRun& part = RunOf(plan, "plain-sst2-10-percent-seed-0");
  EXPECT_EQ(TaskOfRun(EmoeExperiment(), part).share, 0.1);
  EXPECT_EQ(PlannedTaskScores(plan, part, "run-000007", "/t")[0].request.tasks(0).name(), "sst2");
  EXPECT_LT(PlannedTrainingSeconds(plan, part),
            PlannedTrainingSeconds(plan, RunOf(plan, "plain-sst2-seed-0")) / 2);
}

// MoLEx is judged by texts of ten beams, as its paper; EMoE by the most likely ones.
TEST(TuningPlanTest, TextsAreWrittenWithTheBeamsOfTheExperiment) {
  const auto scored = [](const Experiment& experiment) {
    const ReproductionPlan plan = FullPlan(experiment);
    return PlannedTaskScores(plan, RunOf(plan, "plain-e2e-seed-0"), "run-000007", "/t")[0]
        .request.tasks(0);
  };
  v1::TaskSpec by_name;
  by_name.set_name("e2e");
  EXPECT_TRUE(MessageDifferencer::Equals(scored(MolexExperiment()), by_name));
  v1::TaskSpec one_beam = BuiltinTask("e2e").value();
  EXPECT_EQ(one_beam.free().num_beams(), 10);
  one_beam.mutable_free()->set_num_beams(1);
  EXPECT_TRUE(MessageDifferencer::Equals(scored(EmoeExperiment()), one_beam));
  // Beams are counted in the forecast.
  const auto seconds = [](const Experiment& experiment) {
    const ReproductionPlan plan = FullPlan(experiment);
    return PlannedScoringSeconds(plan, RunOf(plan, "plain-e2e-seed-0"), 72'000'000);
  };
  EXPECT_GT(seconds(MolexExperiment()), 5 * seconds(EmoeExperiment()));
}

TEST(TuningPlanTest, TheDigestOfATaskCoversItsFiles) {
  const ScratchDirectory directory;
  std::filesystem::create_directory(directory / "sst2");
  const auto digest = [&](const char* text) {
    PutFile(directory / "sst2/dev.tsv", absl::StrCat("sentence\tlabel\n", text, "\t1\n"));
    return DigestOfTask({.name = "sst2"}, directory.path().string()).value();
  };
  const std::string first = digest("a good film");
  EXPECT_EQ(digest("a good film"), first);
  EXPECT_NE(digest("a bad film"), first);
}

TEST(TuningPlanTest, ModelsAreAnalyzedWhereClaimsNeedIt) {
  const ReproductionPlan emoe = FullPlan(EmoeExperiment());
  const auto activity = [&](const std::string& run) {
    return PlannedExpertAnalysis(emoe, RunOf(emoe, run), "run-000002", "/data");
  };
  const auto experts = activity("initial-random-seed-1");
  ASSERT_TRUE(experts.has_value());
  EXPECT_EQ(experts->split().active_experts(), 4);
  EXPECT_EQ(experts->split().seed(), 1);
  EXPECT_TRUE(experts->split().layers().empty());
  for (const char* routed : {"emoe-sst2-seed-1", "learned-gate-mawps-seed-1"}) {
    ASSERT_TRUE(activity(routed).has_value());
    EXPECT_EQ(activity(routed)->split().ByteSizeLong(), 0u) << "it has experts of its own";
    EXPECT_EQ(activity(routed)->dataset_dir(), "/data");
  }
  for (const char* other : {"emoe-agnews-seed-1", "full-emoe-sst2-seed-1", "plain-sst2-seed-1"}) {
    EXPECT_FALSE(activity(other).has_value()) << other;
  }
  const PlannedRun& initial = RunOf(emoe, "initial-random-seed-1");
  EXPECT_EQ(PlannedRunSpec(emoe, initial, kData).num_steps(), 1);
  const ReproductionPlan molex = FullPlan(MolexExperiment());
  const auto choices = [&](const std::string& run) {
    return PlannedLayerChoices(molex, RunOf(molex, run), "run-000009", "/tasks");
  };
  ASSERT_TRUE(choices("molex-mawps-seed-0").has_value());
  EXPECT_THAT(choices("molex-mawps-seed-0")->tasks(), ElementsAre("mawps"));
  EXPECT_FALSE(choices("molex-e2e-seed-0"));
  EXPECT_FALSE(choices("plain-mawps-seed-0"));
}

TEST(TuningPlanTest, ChangedChoicesAreThoseSinceTheStart) {
  v1::ExpertActivity activity;
  EXPECT_FALSE(ChangedChoicesOf(activity).has_value());
  activity.set_step(30);
  const auto add = [&](int64_t from, int64_t to, double share) {
    v1::ChoiceDrift* const drift = activity.add_drift();
    drift->set_from_step(from);
    drift->set_to_step(to);
    drift->set_changed_share(share);
  };
  add(20, 30, 0.9);
  EXPECT_FALSE(ChangedChoicesOf(activity).has_value());
  add(0, 30, 0.25);  // one of two layers
  add(0, 30, 0.75);
  EXPECT_DOUBLE_EQ(ChangedChoicesOf(activity).value(), 0.5);
}

TEST(TuningPlanTest, NoiseIsAScoring) {
  const ReproductionPlan plan = FullPlan(MolexExperiment());
  const auto scores =
      PlannedTaskScores(plan, RunOf(plan, "molex-sst2-seed-0"), "run-000007", "/tasks");
  ASSERT_EQ(scores.size(), 4);
  EXPECT_EQ(scores[0].request.embedding_noise(), 0);
  EXPECT_EQ(scores[3].scoring, "noise-0.4");
  EXPECT_EQ(scores[3].request.embedding_noise(), 0.4);
}

TEST(TuningPlanTest, MixingIsPlannedAtThePriceOfItsPasses) {
  const ReproductionPlan plan = FullPlan(MolexExperiment());
  const auto speed = [&](const std::string& arm) {
    return RunOf(plan, arm + "-sst2-seed-0").arm.tokens_per_second;
  };
  EXPECT_DOUBLE_EQ(speed("own-layer"), speed("plain"));
  EXPECT_DOUBLE_EQ(speed("molex"), speed("plain") / 1.9);
  EXPECT_DOUBLE_EQ(speed("two-layers"), speed("plain") / 2.8);
}

// A gate that is trained by nothing would be a frozen one under another name.
TEST(TuningPlanTest, LearnedGatesHaveAGradient) {
  const auto model = [](const Experiment& experiment, const std::string& arm) {
    return RunOf(FullPlan(experiment), arm + "-sst2-seed-0").arm.settings.model();
  };
  const v1::TokenRouting token = model(EmoeExperiment(), "learned-gate").routing().token();
  EXPECT_EQ(token.combine_weights(), v1::TokenRouting::SOFTMAX_OF_CHOSEN);
  EXPECT_GT(token.balance_loss(), 0);
  for (const char* arm : {"molex", "two-layers", "probability"}) {
    EXPECT_GT(model(MolexExperiment(), arm).layer_mixing().balance_loss(), 0) << arm;
  }
  EXPECT_EQ(model(MolexExperiment(), "frozen-gate").layer_mixing().balance_loss(), 0);
}

TEST(TuningPlanTest, StepsReplaceEpochs) {
  ReproductionPlan plan = QuickPlan(MolexExperiment());
  plan.tuning_steps = 10;
  const auto spec = [&](const std::string& name) {
    return TunedRunSpec(plan, RunOf(plan, name), "run-000001", "/data");
  };
  EXPECT_EQ(spec("plain-sst2-seed-0").num_steps(), 10);
  EXPECT_EQ(spec("more-steps-sst2-seed-0").num_steps(), 19);
  EXPECT_FALSE(spec("plain-sst2-seed-0").has_length());
}

TEST(TuningPlanTest, StepsReplaceEpochsInTheDryRun) {
  ReproductionPlan plan = QuickPlan(MolexExperiment());
  const PlannedRun& plain = RunOf(plan, "plain-sst2-seed-0");
  const auto printed = [&] {
    std::ostringstream out;
    PrintPlan(plan, 2, 24'000'000, out);
    return out.str();
  };
  const auto json = [&] { return nlohmann::json::parse(PlanJson(plan, 2, 24'000'000, {})); };
  const double of_epochs = PlannedTrainingSeconds(plan, plain);
  EXPECT_THAT(printed(), HasSubstr("the others make 2 passes over the examples of a task\n"));
  EXPECT_EQ(json()["epochs"], 2);
  EXPECT_FALSE(json().contains("tuning_steps"));
  plan.tuning_steps = 10;
  EXPECT_THAT(printed(), HasSubstr("the others make 10 steps\n"));
  EXPECT_EQ(json()["tuning_steps"], 10);
  EXPECT_FALSE(json().contains("epochs"));
  // 10 steps of 4 sequences of 256 tokens, after the start of the trainer.
  const double start = 2;
  EXPECT_LT(PlannedTrainingSeconds(plan, plain), of_epochs / 4);
  EXPECT_DOUBLE_EQ(PlannedTrainingSeconds(plan, plain),
                   start + 10240 / plain.arm.tokens_per_second);
  EXPECT_DOUBLE_EQ(PlannedTrainingSeconds(plan, RunOf(plan, "more-steps-sst2-seed-0")),
                   start + 1.9 * 10240 / plain.arm.tokens_per_second);
}

TEST(TuningPlanTest, IsPrinted) {
  std::ostringstream out;
  PrintPlan(QuickPlan(EmoeExperiment()), 2, 24'000'000, out);
  EXPECT_THAT(out.str(), HasSubstr("2 of the runs train models for fine-tuning"));
  EXPECT_THAT(out.str(), testing::Not(HasSubstr("second-layer")));
}

}  // namespace tuning_plan_test
}  // namespace braid
