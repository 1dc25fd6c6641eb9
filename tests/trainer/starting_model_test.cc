// Runs that start from the weights of another run (RunSpec.init_from).
#include "trainer/starting_model.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/atomic_file.h"
#include "formats/packed_dataset.h"
#include "google/protobuf/text_format.h"
#include "model/config/model_config.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "runs/starting_point.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace starting_model_test {

namespace fs = std::filesystem;

class StartingModelTest : public testing::Test {
 protected:
  StartingModelTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  // Trains a run of 6 steps: of a dense model, or with 4 experts.
  RunDirectory SourceRun(bool dense) {
    RunDirectory run(NewDirectory("source"));
    v1::RunSpec spec = TinySpec(dataset_, 6);
    if (dense) {
      *spec.mutable_model() = DenseCounterpart(spec.model());
      spec.clear_upcycling();
      spec = ResolveRunSpec(spec).value();
    }
    EXPECT_OK(run.WriteSpec(spec));
    EXPECT_OK(TrainAlone(run, spec));
    return run;
  }

  // Writes a checkpoint of a dense model at step 0, as an import does: of the attention described
  // by `text`, with random biases and eight rows of padded embeddings.
  fs::path ImportedModel(const std::string& text) {
    v1::ModelConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        text +
            "num_layers: 2 d_model: 16 num_heads: 4 d_ff: 32 vocab_size: 72 sequence_length: 256",
        &config));
    TrainingState state;
    state.model = LanguageModel::Create(ResolveModelConfig(config).value(), 5).value();
    for (const Parameter& parameter : state.model->parameters()) {
      if (!parameter.name.ends_with(".bias")) continue;
      for (size_t i = 0; i < parameter.value.size(); ++i) parameter.value[i] = 0.1f * (i % 7);
    }
    state.moments = {0, state.model->values().size()};
    state.m.assign(state.model->values().size(), 0.0f);
    state.v.assign(state.model->values().size(), 0.0f);
    const fs::path folder = NewDirectory("imported");
    EXPECT_OK(SaveState(state, folder, "imported", dataset_ / "tokenizer.model"));
    return CheckpointPath(folder, 0);
  }

  // Returns a spec as a user writes it, with only the starting point and the number of steps.
  v1::RunSpec Asked(const fs::path& init_from) {
    v1::RunSpec spec;
    spec.set_dataset_dir(dataset_.string());
    spec.set_init_from(init_from.string());
    spec.set_num_steps(4);
    spec.set_threads_per_rank(1);
    spec.mutable_model()->mutable_routing()->set_segment_length(8);
    return spec;
  }

  // Returns the loss of the first step.
  static double FirstLoss(const RunDirectory& run) { return run.ReadMetrics(0)->front().loss(); }

  RunDirectory Trained(const v1::RunSpec& spec) {
    RunDirectory run(NewDirectory("run"));
    const auto resolved = ResolveRunSpec(spec);
    EXPECT_OK(resolved);
    EXPECT_OK(run.WriteSpec(*resolved));
    EXPECT_OK(TrainAlone(run, *resolved));
    return run;
  }

  static fs::path NewestOf(const RunDirectory& run) {
    std::vector<std::string> skipped;
    return **NewestGoodCheckpoint(run.checkpoints(), &skipped);
  }

  fs::path dataset_;
};

TEST_F(StartingModelTest, ShapeAndWeightsAreThoseOfTheSource) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, ResolveRunSpec(Asked(source.root())));
  EXPECT_EQ(spec.init_from(), NewestOf(source).string());
  EXPECT_EQ(spec.model().d_model(), 16);
  EXPECT_EQ(spec.model().d_ff(), 32);
  ASSERT_OK_AND_ASSIGN(const auto model, StartingModel(spec));
  ASSERT_OK_AND_ASSIGN(const auto weights, LoadModel(spec.init_from()));
  EXPECT_TRUE(std::ranges::equal(model->values(), weights->values()));
}

TEST_F(StartingModelTest, ADatasetInMemoryGivesTheSameSpecAndErrorsAsAStoredOne) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  ASSERT_OK_AND_ASSIGN(const StartingPoint start, FindStartingPoint(source.root().string()));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo dataset, ReadDatasetInfo(dataset_));
  v1::RunSpec spec = Asked(source.root());
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec stored, ResolveRunSpec(spec));
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec planned, ResolveRunSpec(spec, dataset, start));
  EXPECT_EQ(planned.DebugString(), stored.DebugString());
  spec.mutable_optimizer()->set_ema_decay(2);
  EXPECT_FAILS(ResolveRunSpec(spec, dataset, start), absl::StatusCode::kInvalidArgument,
               "ema_decay: got 2");
  EXPECT_EQ(ResolveRunSpec(spec, dataset, start).status(), ResolveRunSpec(spec).status());
}

// Segments that have no effect on a model must not stand in its way.
TEST_F(StartingModelTest, SegmentsThatOnlyDivideFiguresAreKeptWhereTheyFit) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  ASSERT_OK_AND_ASSIGN(const StartingPoint start, FindStartingPoint(source.root().string()));
  ASSERT_EQ(start.model.routing().segment_length(), 8);
  v1::ModelConfig chosen = start.model;
  chosen.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  chosen.mutable_routing()->set_num_experts(4);
  ASSERT_OK_AND_ASSIGN(chosen, ResolveModelConfig(chosen));
  for (const auto& [length, segment] : {std::pair(24, 8), {20, 20}, {5, 5}, {300, 300}}) {
    v1::ModelConfig asked;
    asked.set_sequence_length(length);
    for (const v1::ModelConfig& weights : {start.model, chosen}) {
      ASSERT_OK_AND_ASSIGN(const v1::ModelConfig model, ShapeFrom(weights, asked));
      EXPECT_EQ(model.routing().segment_length(), segment) << length;
    }
  }
  v1::ModelConfig asked;
  asked.set_sequence_length(24);
  asked.mutable_routing()->set_segment_length(6);
  ASSERT_OK_AND_ASSIGN(const v1::ModelConfig model, ShapeFrom(start.model, asked));
  EXPECT_EQ(model.routing().segment_length(), 6);
}

TEST_F(StartingModelTest, SegmentsByDocumentAreKeptUnlessFixedOnesAreAsked) {
  v1::ModelConfig source;
  source.set_preset("tiny");
  source.set_document_end(3);
  source.mutable_routing()->set_num_experts(4);
  source.mutable_routing()->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
  source.mutable_routing()->set_reset_at_documents(true);
  source.mutable_routing()->set_first_segment(v1::UNIFORM);
  ASSERT_OK_AND_ASSIGN(source, ResolveModelConfig(source));
  v1::ModelConfig asked;
  ASSERT_OK_AND_ASSIGN(const v1::ModelConfig same, ShapeFrom(source, asked));
  EXPECT_EQ(same.routing().segment_boundaries(), v1::RoutingConfig::DOCUMENT);
  EXPECT_TRUE(same.routing().reset_at_documents());
  EXPECT_EQ(same.document_end(), 3);
  asked.mutable_routing()->set_segment_boundaries(v1::RoutingConfig::FIXED);
  ASSERT_OK_AND_ASSIGN(const v1::ModelConfig fixed, ShapeFrom(source, asked));
  EXPECT_FALSE(fixed.routing().reset_at_documents());
  EXPECT_FALSE(fixed.has_document_end());
}

// Experts were trained for the number, the weights and the selection with which tokens used them.
TEST_F(StartingModelTest, TokensUseTheExpertsOfARunAsItDid) {
  v1::RunSpec first = TinyDenseSpec(dataset_, 1);
  v1::RoutingConfig* routing = first.mutable_model()->mutable_routing();
  routing->set_router(v1::TOKEN_CHOICE);
  routing->set_num_experts(4);
  routing->mutable_token()->set_active_experts(2);
  const RunDirectory source = Trained(first);
  EXPECT_OK(ResolveRunSpec(Asked(source.root())).status());
  v1::RunSpec grows = Asked(source.root());
  grows.mutable_growth()->set_first(2);
  grows.mutable_growth()->set_last(4);
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec grown, ResolveRunSpec(grows));
  EXPECT_EQ(grown.model().routing().token().active_experts(), 4);
  EXPECT_OK(ResolveRunSpec(grown).status());

  for (const auto& [text, refused, tunable] :
       {std::tuple{"router: EXPERT_CHOICE_TOKEN", "router: got EXPERT_CHOICE_TOKEN", false},
        {"token { gate: COSINE }", "gate: got COSINE, expected LINEAR", false},
        {"token { centered_input: true }", "centered_input: got 1, expected 0", false},
        {"token { expert_d_ff: 32 }", "expert_d_ff: got 32, expected 8", false},
        {"token { active_experts: 3 }",
         "got 3, expected 2 as in the weights of init_from; use growth.first", false},
        {"token { combine_weights: EQUAL }", "got EQUAL, expected SOFTMAX_OF_CHOSEN", true},
        {"token { selection: BOTTOM }", "selection: got BOTTOM, expected TOP", true}}) {
    v1::RunSpec spec = Asked(source.root());
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(
        text, spec.mutable_model()->mutable_routing()));
    EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, refused,
                 "as in the weights of init_from");
    spec.mutable_finetuning()->mutable_lora();
    EXPECT_EQ(ResolveRunSpec(spec).ok(), tunable) << text;
  }
}

TEST_F(StartingModelTest, DenseWeightsBecomeExpertsWithTheSameLoss) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  const double dense = FirstLoss(Trained(Asked(source.root())));
  v1::RunSpec spec = Asked(source.root());
  spec.mutable_model()->mutable_routing()->set_num_experts(4);
  EXPECT_NEAR(FirstLoss(Trained(spec)), dense, 1e-5);  // during the dense warm-up
  spec.mutable_upcycling()->set_dense_fraction(0);
  const RunDirectory at_once = Trained(spec);
  EXPECT_NEAR(FirstLoss(at_once), dense, 1e-5);
  EXPECT_TRUE(at_once.ReadMetrics(0)->front().upcycled());
}

TEST_F(StartingModelTest, DropoutMayBeAddedUnlessItHasParameters) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  const double without = FirstLoss(Trained(Asked(source.root())));
  v1::RunSpec spec = Asked(source.root());
  spec.mutable_model()->mutable_dropout()->set_rate(0.5);
  EXPECT_NE(FirstLoss(Trained(spec)), without);
  spec.mutable_model()->mutable_dropout()->set_kind(v1::DropoutConfig::CONCRETE);
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, "init_from", "dropout");
}

TEST_F(StartingModelTest, ImportedArchitecturesBecomeExpertsWithTheSameLossAndTrain) {
  for (const char* attention : {"num_key_value_heads: 2 rope_theta: 100 "
                                "rope_scaling { type: LLAMA3_ROPE original_length: 16 } ",
                                "num_key_value_heads: 1 qkv_bias: true tie_embeddings: true ",
                                "num_key_value_heads: 2 head_dim: 6 qk_norm: true "}) {
    SCOPED_TRACE(attention);
    const fs::path imported = ImportedModel(attention);
    v1::RunSpec spec = Asked(imported);
    const double dense = FirstLoss(Trained(spec));
    spec.mutable_model()->mutable_routing()->set_num_experts(4);
    spec.mutable_upcycling()->set_dense_fraction(0);
    spec.mutable_optimizer()->set_learning_rate(1e-2);
    spec.set_num_steps(8);
    const RunDirectory run = Trained(spec);
    EXPECT_NEAR(FirstLoss(run), dense, 1e-5);
    EXPECT_LT(run.ReadMetrics(0)->back().loss(), dense - 0.05);
    EXPECT_EQ(run.ReadSpec()->model().vocab_size(), 72);
  }
}

// A GPT-2 of 256 learned positions trains on sequences of 32 with the first of them, whole and with
// adapters.
TEST_F(StartingModelTest, LearnedPositionsOfLongerSequencesAreUsed) {
  const fs::path imported = ImportedModel("family: GPT2 ");
  ASSERT_OK_AND_ASSIGN(const auto source, LoadModel(imported));
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, ResolveRunSpec(Asked(imported)));
  EXPECT_EQ(spec.model().sequence_length(), 32);
  ASSERT_OK_AND_ASSIGN(const auto model, StartingModel(spec));
  for (const Parameter& p : model->parameters()) {
    const auto from = std::ranges::find(source->parameters(), p.name, &Parameter::name);
    EXPECT_TRUE(std::ranges::equal(p.value, from->value.first(p.value.size()))) << p.name;
  }
  v1::RunSpec whole = Asked(imported), adapters = Asked(imported);
  for (v1::RunSpec* run : {&whole, &adapters}) {
    run->set_num_steps(8);
    run->mutable_optimizer()->set_learning_rate(1e-2);
  }
  for (const char* target : {"q", "v", "o", "up", "down"}) {
    adapters.mutable_finetuning()->mutable_lora()->add_targets(target);
  }
  for (const v1::RunSpec& asked : {whole, adapters}) {
    const RunDirectory run = Trained(asked);
    EXPECT_LT(run.ReadMetrics(0)->back().loss(), FirstLoss(run) - 0.02);
    ASSERT_OK_AND_ASSIGN(const auto trained, LoadModel(NewestOf(run)));
    EXPECT_EQ(trained->config().sequence_length(), 32);
  }
  // Sequences of 16 continue the run with adapters, which refers to the imported model.
  const fs::path shorter = NewDirectory("shorter");
  WriteTinyDataset(shorter, {.sequence_length = 16});
  v1::RunSpec next = Asked(Trained(adapters).root());
  next.set_dataset_dir(shorter.string());
  *next.mutable_finetuning() = adapters.finetuning();
  ASSERT_OK_AND_ASSIGN(const auto continued, LoadModel(NewestOf(Trained(next))));
  EXPECT_EQ(continued->config().sequence_length(), 16);
  v1::ModelConfig longer;
  longer.set_sequence_length(300);
  EXPECT_FAILS(ShapeFrom(source->config(), longer), absl::StatusCode::kInvalidArgument,
               "model.sequence_length: got 300, expected at most 256");
}

// A model whose texts begin with BOS, or with nothing, trains on data that is packed so.
TEST_F(StartingModelTest, DataMustBeginTextsAsTheModelDoes) {
  const fs::path bos = ImportedModel("start_token: START_WITH_BOS ");
  EXPECT_FAILS(ResolveRunSpec(Asked(bos)), absl::StatusCode::kInvalidArgument, "model.start_token",
               "START_WITH_BOS", "tokenizer.begin_with_bos");
  const fs::path none = ImportedModel("start_token: START_WITH_NONE ");
  EXPECT_EQ(ResolveRunSpec(Asked(none))->model().start_token(), v1::START_WITH_NONE);
  DatasetInfo info = ReadDatasetInfo(dataset_).value();
  info.begin_with_bos = true;
  ASSERT_OK(WriteDatasetInfo(dataset_, info));
  EXPECT_EQ(ResolveRunSpec(Asked(bos))->model().start_token(), v1::START_WITH_BOS);
  EXPECT_FAILS(ResolveRunSpec(Asked(none)), absl::StatusCode::kInvalidArgument, "model.start_token",
               "START_WITH_NONE", "begin_with_bos");
  v1::RunSpec fresh = Asked("");
  EXPECT_EQ(ResolveRunSpec(fresh)->model().start_token(), v1::START_WITH_BOS);
}

TEST_F(StartingModelTest, ExpertsStayExperts) {
  const RunDirectory source = SourceRun(/*dense=*/false);
  const RunDirectory run = Trained(Asked(source.root()));
  const auto metrics = run.ReadMetrics(0);
  EXPECT_TRUE(metrics->front().upcycled());
  ASSERT_OK_AND_ASSIGN(const auto model, StartingModel(*run.ReadSpec()));
  ASSERT_OK_AND_ASSIGN(const auto weights, LoadModel(NewestOf(source)));
  EXPECT_TRUE(std::ranges::equal(model->values(), weights->values()));
}

TEST_F(StartingModelTest, ResumeIsBitExactAndDoesNotNeedTheSource) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  v1::RunSpec spec = Asked(source.root());
  spec.mutable_model()->mutable_routing()->set_num_experts(4);
  spec = ResolveRunSpec(spec).value();
  const RunDirectory whole = Trained(spec), stopped(NewDirectory("stopped"));
  ASSERT_OK(stopped.WriteSpec(spec));
  ASSERT_OK(TrainAlone(stopped, spec, /*stop_after=*/2));
  fs::remove_all(source.root());
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec again, ResolveRunSpec(spec));
  EXPECT_EQ(again.DebugString(), spec.DebugString());
  ASSERT_OK(TrainAlone(stopped, again));
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
  EXPECT_EQ(LossLines(stopped), LossLines(whole));
}

// A field that the resolved spec of a run lacks has its default, not the value of the weights.
TEST_F(StartingModelTest, SettingsUnlikeThoseOfTheSourceAreKeptWhenResolvedAgain) {
  const fs::path imported = ImportedModel(
      "attention_mask: DOCUMENT document_end: 2 consistency_loss: 1 "
      "dropout { kind: DROP_BLOCK rate: 0.2 } ");
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec same, ResolveRunSpec(Asked(imported)));
  EXPECT_EQ(same.model().attention_mask(), v1::DOCUMENT);
  EXPECT_EQ(same.model().dropout().rate(), 0.2);
  EXPECT_EQ(same.model().consistency_loss(), 1);
  v1::RunSpec asked = Asked(imported);
  asked.mutable_model()->mutable_dropout()->set_kind(v1::DropoutConfig::BERNOULLI);
  EXPECT_FALSE(ResolveRunSpec(asked)->model().dropout().has_block_size());
  asked.mutable_model()->set_attention_mask(v1::OPEN);
  asked.mutable_model()->mutable_dropout()->set_rate(0);
  asked.mutable_model()->set_consistency_loss(0);
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec other, ResolveRunSpec(asked));
  EXPECT_NE(other.model().attention_mask(), v1::DOCUMENT);
  EXPECT_FALSE(other.model().has_dropout() || other.model().has_consistency_loss());
  for (const v1::RunSpec& once : {same, other}) {
    ASSERT_OK_AND_ASSIGN(const v1::RunSpec twice, ResolveRunSpec(once));
    EXPECT_EQ(twice.DebugString(), once.DebugString());
  }
}

TEST_F(StartingModelTest, RefusesIncompatibleWeights) {
  const RunDirectory dense = SourceRun(/*dense=*/true), experts = SourceRun(/*dense=*/false);
  v1::RunSpec spec = Asked(dense.root());
  spec.mutable_model()->set_d_model(32);
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, "init_from", "d_model",
               "16", "32");
  spec.mutable_model()->set_num_layers(3);
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, "num_layers: 2 -> 3, ",
               "d_model: 16 -> 32; leave these settings out");
  spec = Asked(experts.root());
  spec.mutable_model()->mutable_routing()->set_num_experts(8);
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, "num_experts", "got 8",
               "expected 4");
  spec = Asked(experts.root());
  spec.mutable_model()->mutable_routing()->add_moe_layers(1);
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, "moe_layers", "got 1",
               "expected 0,1");
  spec = Asked("/nowhere");
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kNotFound, "/nowhere");
}

TEST_F(StartingModelTest, RefusesDataOfAnotherTokenizer) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  ASSERT_OK(WriteFileAtomically(dataset_ / "tokenizer.model", "another"));
  EXPECT_FAILS(ResolveRunSpec(Asked(source.root())), absl::StatusCode::kInvalidArgument,
               "init_from", "another tokenizer", "tokenizer.model_path");
}

TEST_F(StartingModelTest, DamagedWeightsAreRefused) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  const v1::RunSpec spec = ResolveRunSpec(Asked(source.root())).value();
  fs::resize_file(NewestOf(source) / "model.safetensors", 100);
  EXPECT_FAILS(StartingModel(spec), absl::StatusCode::kDataLoss, "model.safetensors");
}

TEST_F(StartingModelTest, OlderCheckpointMustBeNamed) {
  RunDirectory source(NewDirectory("source"));
  v1::RunSpec trained = TinySpec(dataset_, 6);
  trained.mutable_checkpoint()->set_every_steps(3);
  EXPECT_OK(source.WriteSpec(trained));
  EXPECT_OK(TrainAlone(source, trained));
  const fs::path newest = NewestOf(source);
  fs::resize_file(newest / "model.safetensors", 100);
  const fs::path older = NewestOf(source);
  ASSERT_NE(older, newest);
  EXPECT_FAILS(ResolveRunSpec(Asked(source.root())), absl::StatusCode::kFailedPrecondition,
               newest.string(), "is damaged", older.string());
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, ResolveRunSpec(Asked(older)));
  EXPECT_EQ(spec.init_from(), older.string());
}

}  // namespace starting_model_test
}  // namespace braid
