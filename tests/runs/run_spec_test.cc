#include "runs/run_spec.h"

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/atomic_file.h"
#include "formats/packed_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace run_spec_test {

using testing::AllOf;
using testing::HasSubstr;

class RunSpecTest : public testing::Test {
 protected:
  RunSpecTest() : dataset_(NewDirectory("data")) {
    WriteTinyDataset(dataset_);
    spec_.set_dataset_dir(dataset_.string());
    spec_.mutable_model()->mutable_routing()->set_num_experts(4);
    spec_.mutable_model()->mutable_routing()->set_segment_length(8);
  }

  std::string ErrorOf(const std::function<void(v1::RunSpec*)>& change) {
    v1::RunSpec spec = spec_;
    change(&spec);
    const auto resolved = ResolveRunSpec(spec);
    return resolved.ok() ? "no error" : std::string(resolved.status().message());
  }

  std::filesystem::path dataset_;
  v1::RunSpec spec_;
};

TEST_F(RunSpecTest, FillsEveryDefault) {
  spec_.set_world_size(2);
  const auto spec = ResolveRunSpec(spec_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model().vocab_size(), 64);
  EXPECT_EQ(spec->model().sequence_length(), 32);
  EXPECT_EQ(spec->optimizer().learning_rate(), 2e-4);
  EXPECT_EQ(spec->optimizer().beta2(), 0.95);
  EXPECT_EQ(spec->optimizer().weight_decay(), 0.1);
  EXPECT_EQ(spec->optimizer().warmup_fraction(), 0.05);
  EXPECT_EQ(spec->upcycling().dense_fraction(), 0.05);
  EXPECT_EQ(spec->batch().global_batch_size(), 4);
  EXPECT_EQ(spec->batch().micro_batch_size(), 2);
  EXPECT_EQ(spec->num_steps(), 10);  // 37 instances in batches of 4
  EXPECT_EQ(spec->checkpoint().every_steps(), 50);
  EXPECT_EQ(spec->checkpoint().keep_last(), 2);
  EXPECT_EQ(spec->routing_every_steps(), 10);
  EXPECT_EQ(spec->optimizer_sharding(), v1::ZERO_1);
  EXPECT_EQ(spec->reduction().bucket_bytes(), 25 << 20);
  EXPECT_FALSE(spec->reduction().after_backward());
  EXPECT_EQ(spec->weight_check_every_steps(), 100);
  EXPECT_GE(spec->threads_per_rank(), 1);
  EXPECT_FALSE(spec->name().empty());
}

TEST_F(RunSpecTest, DocumentsEndWithTheEosTokenOfTheData) {
  EXPECT_FALSE(ResolveRunSpec(spec_)->model().has_document_end());
  spec_.mutable_model()->set_attention_mask(v1::DOCUMENT);
  const auto spec = ResolveRunSpec(spec_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const int32_t eos = ReadDatasetInfo(dataset_)->eos_id;
  EXPECT_EQ(spec->model().document_end(), eos);
  EXPECT_EQ(ResolveRunSpec(*spec)->model().document_end(), eos);
  EXPECT_THAT(ErrorOf([&](v1::RunSpec* s) { s->mutable_model()->set_document_end(eos + 1); }),
              HasSubstr("model.document_end"));
}

TEST_F(RunSpecTest, ADatasetWithoutTheEndOfDocumentsSaysHowToPackItAgain) {
  const std::filesystem::path path = dataset_ / kDatasetInfoName;
  std::string text = *ReadFile(path);
  const std::string field = "\"eos_id\"";
  ASSERT_NE(text.find(field), std::string::npos);
  text.replace(text.find(field), field.size(), "\"another\"");
  ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_model()->set_attention_mask(v1::DOCUMENT); }),
              AllOf(HasSubstr("dataset.json: eos_id: got nothing"),
                    HasSubstr("submit the corpus again"), HasSubstr("only packing is repeated")));
}

TEST_F(RunSpecTest, RefusesMuonForScaledWidths) {
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) {
                s->mutable_model()->set_initialization(v1::WIDTH_SCALED);
                s->mutable_optimizer()->set_algorithm(v1::MUON);
              }),
              HasSubstr("optimizer.algorithm: got MUON with model.initialization WIDTH_SCALED"));
}

TEST_F(RunSpecTest, LengthsInTokensAndEpochsBecomeSteps) {
  spec_.mutable_length()->set_epochs(3);
  spec_.mutable_optimizer()->set_schedule(v1::WSD);
  spec_.mutable_optimizer()->mutable_warmup()->set_tokens(4 * 32 * 2);
  const auto spec = ResolveRunSpec(spec_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->num_steps(), 28);  // 3 x 37 instances in batches of 4
  EXPECT_EQ(spec->optimizer().warmup().steps(), 2);
  EXPECT_EQ(spec->optimizer().decay().fraction(), 0.1);
  EXPECT_EQ(ResolveRunSpec(*spec)->DebugString(), spec->DebugString());
}

TEST_F(RunSpecTest, RefusesSchedulesThatDoNotFitTheRun) {
  const auto error = [&](const std::function<void(v1::OptimizerConfig*)>& change) {
    return ErrorOf([&](v1::RunSpec* s) {
      s->set_num_steps(100);
      s->mutable_optimizer()->set_schedule(v1::WSD);
      change(s->mutable_optimizer());
    });
  };
  EXPECT_THAT(error([](auto* o) { o->mutable_decay()->set_steps(96); }),
              HasSubstr("optimizer.decay: got 96 steps, expected 1 to 95: the run has 100 steps "
                        "and 5 of them are warm-up"));
  EXPECT_THAT(error([](auto* o) { o->mutable_decay()->set_steps(0); }),
              HasSubstr("optimizer.decay: got 0 steps"));
  EXPECT_THAT(error([](auto* o) { o->mutable_warmup()->set_steps(101); }),
              HasSubstr("optimizer.warmup: got 101 steps, expected at most the run's 100"));
  EXPECT_THAT(error([](auto* o) {
                o->set_schedule(v1::LINEAR);
                o->mutable_decay()->set_fraction(0.1);
              }),
              HasSubstr("with schedule LINEAR, expected WSD"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) {
                s->set_num_steps(10);
                s->mutable_length()->set_tokens(1e6);
              }),
              HasSubstr("length: got a length and num_steps: 10"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_length()->set_fraction(0.5); }),
              HasSubstr("length: got the share 0.5"));
}

TEST_F(RunSpecTest, RefusesSettingsThatTheScheduleIgnoresUnlessTheyWereResolved) {
  v1::RunSpec constant = spec_, warmed = spec_;
  constant.mutable_optimizer()->set_schedule(v1::CONSTANT);
  warmed.mutable_optimizer()->mutable_warmup()->set_steps(2);
  ASSERT_OK_AND_ASSIGN(v1::RunSpec old_constant, ResolveRunSpec(constant));
  ASSERT_OK_AND_ASSIGN(v1::RunSpec old_warmed, ResolveRunSpec(warmed));
  for (v1::RunSpec* spec : {&constant, &old_constant}) {
    spec->mutable_optimizer()->set_final_lr_ratio(0.2);
  }
  for (v1::RunSpec* spec : {&warmed, &old_warmed}) {
    spec->mutable_optimizer()->set_warmup_fraction(0.3);
  }
  EXPECT_FAILS(ResolveRunSpec(constant), absl::StatusCode::kInvalidArgument,
               "optimizer.final_lr_ratio: got 0.2, expected nothing with schedule CONSTANT");
  EXPECT_FAILS(ResolveRunSpec(warmed), absl::StatusCode::kInvalidArgument,
               "optimizer.warmup_fraction: got 0.3, expected nothing beside optimizer.warmup");
  // Specs of older runs have both.
  EXPECT_OK(ResolveRunSpec(old_constant));
  EXPECT_OK(ResolveRunSpec(old_warmed));
}

// Merged experts can start from a dense model; expert choice, which scales outputs by scores,
// cannot.
TEST_F(RunSpecTest, DenseWarmUpIsTheDefaultOfMergingRoutersOnly) {
  const auto fraction = [&](v1::Router router, std::optional<double> asked) {
    v1::RunSpec spec = spec_;
    spec.mutable_model()->mutable_routing()->set_router(router);
    if (asked) spec.mutable_upcycling()->set_dense_fraction(*asked);
    return ResolveRunSpec(spec)->upcycling().dense_fraction();
  };
  EXPECT_EQ(fraction(v1::PREFIX, std::nullopt), 0.05);
  EXPECT_EQ(fraction(v1::PREFIX, 0), 0);
  EXPECT_EQ(fraction(v1::EXPERT_CHOICE_SEGMENT, std::nullopt), 0);
  EXPECT_EQ(fraction(v1::EXPERT_CHOICE_TOKEN, std::nullopt), 0);
  EXPECT_EQ(fraction(v1::EXPERT_CHOICE_TOKEN, 0.2), 0.2);
}

TEST_F(RunSpecTest, RefusesADenseWarmUpOfADenseModel) {
  v1::RunSpec spec = TinyDenseSpec(dataset_, 10);
  for (const double fraction : {0.5, 5.0, std::nan("")}) {
    spec.mutable_upcycling()->set_dense_fraction(fraction);
    EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument,
                 "upcycling.dense_fraction: got ", "for a dense model");
  }
}

TEST_F(RunSpecTest, RefusesADenseWarmUpOfWeightsThatHaveExperts) {
  const DatasetInfo dataset = *ReadDatasetInfo(dataset_);
  const StartingPoint experts{dataset_, ResolveRunSpec(spec_)->model()};
  v1::RunSpec asked;
  asked.set_dataset_dir(dataset_.string());
  const auto resolve = [&] { return ResolveRunSpec(asked, dataset, experts); };
  EXPECT_EQ(resolve()->upcycling().dense_fraction(), 0);
  asked.mutable_upcycling()->set_dense_fraction(0.1);
  EXPECT_FAILS(resolve(), absl::StatusCode::kInvalidArgument,
               "upcycling.dense_fraction: got 0.1, expected 0", "init_from");
  for (const double off : {0.0, -1.0}) {
    asked.mutable_upcycling()->set_dense_fraction(off);
    EXPECT_EQ(resolve()->upcycling().dense_fraction(), 0);
  }
}

TEST_F(RunSpecTest, ResolvingAgainChangesNothing) {
  const v1::RunSpec once = *ResolveRunSpec(spec_);
  EXPECT_EQ(ResolveRunSpec(once)->DebugString(), once.DebugString());
}

TEST_F(RunSpecTest, KeepsWhatIsSet) {
  spec_.set_name("mine");
  spec_.set_num_steps(1000);
  spec_.mutable_optimizer()->set_weight_decay(0.2);
  const v1::RunSpec spec = *ResolveRunSpec(spec_);
  EXPECT_EQ(spec.name(), "mine");
  EXPECT_EQ(spec.checkpoint().every_steps(), 100);
  EXPECT_EQ(spec.optimizer().weight_decay(), 0.2);
}

// What can be off is off at 0, which is not the default, and at -1, which earlier versions wrote.
TEST_F(RunSpecTest, ZeroAndNegativeValuesDisable) {
  for (const double off : {0.0, -1.0}) {
    spec_.mutable_optimizer()->set_weight_decay(off);
    spec_.mutable_optimizer()->set_clip_norm(off);
    spec_.mutable_upcycling()->set_dense_fraction(off);
    spec_.mutable_supervision()->set_max_restarts(static_cast<int>(off));
    spec_.set_weight_check_every_steps(static_cast<int>(off));
    const v1::RunSpec spec = *ResolveRunSpec(spec_);
    EXPECT_EQ(spec.optimizer().weight_decay(), 0);
    EXPECT_EQ(spec.optimizer().clip_norm(), 0);
    EXPECT_EQ(DenseSteps(spec), 0);
    EXPECT_EQ(spec.supervision().max_restarts(), 0);
    EXPECT_EQ(spec.weight_check_every_steps(), 0);
    EXPECT_EQ(ResolveRunSpec(spec)->DebugString(), spec.DebugString());
  }
}

// No version wrote a negative value for other settings.
TEST_F(RunSpecTest, RefusesANegativeThresholdOfSpikes) {
  spec_.mutable_spikes()->set_threshold(0);
  EXPECT_OK(ResolveRunSpec(spec_).status());
  spec_.mutable_spikes()->set_threshold(-1);
  EXPECT_FAILS(ResolveRunSpec(spec_), absl::StatusCode::kInvalidArgument,
               "spikes.threshold: got -1, expected a number of at least 0");
}

// Presence decides: a zero where only positive values are possible is an error, not the default.
TEST_F(RunSpecTest, RefusesZerosThatMeanNothing) {
  const std::pair<std::string, std::function<void(v1::RunSpec*)>> zeros[] = {
      {"optimizer.learning_rate", [](auto* s) { s->mutable_optimizer()->set_learning_rate(0); }},
      {"batch.micro_batch_size", [](auto* s) { s->mutable_batch()->set_micro_batch_size(0); }},
      {"num_steps", [](auto* s) { s->set_num_steps(0); }},
      {"world_size", [](auto* s) { s->set_world_size(0); }},
      {"threads_per_rank", [](auto* s) { s->set_threads_per_rank(0); }},
      {"supervision.hang_seconds", [](auto* s) { s->mutable_supervision()->set_hang_seconds(0); }},
      {"model.num_layers", [](auto* s) { s->mutable_model()->set_num_layers(0); }},
      {"model.vocab_size", [](auto* s) { s->mutable_model()->set_vocab_size(0); }}};
  for (const auto& [field, set] : zeros) {
    EXPECT_THAT(ErrorOf(set), HasSubstr(field + ": got 0, expected")) << field;
  }
}

TEST_F(RunSpecTest, DenseStepsRoundUpAndLeaveOneForTheExperts) {
  v1::RunSpec spec = *ResolveRunSpec(spec_);
  spec.set_num_steps(480);
  EXPECT_EQ(DenseSteps(spec), 24);
  spec.set_num_steps(30);
  EXPECT_EQ(DenseSteps(spec), 2);
  spec.set_num_steps(1);
  EXPECT_EQ(DenseSteps(spec), 0);
  spec.mutable_upcycling()->set_dense_fraction(0);
  spec.set_num_steps(480);
  EXPECT_EQ(DenseSteps(spec), 0);
}

TEST_F(RunSpecTest, ErrorsNameFieldValueAndExpectation) {
  EXPECT_THAT(
      ErrorOf([](v1::RunSpec* s) { s->mutable_model()->set_vocab_size(63); }),
      HasSubstr("model.vocab_size: got 63, expected at least the vocabulary of the dataset's "
                "tokenizer, 64"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_model()->set_sequence_length(64); }),
              HasSubstr("model.sequence_length: got 64, expected the length the dataset was "
                        "packed to, 32"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_optimizer()->set_learning_rate(-1); }),
              HasSubstr("optimizer.learning_rate: got -1"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_optimizer()->set_beta1(1); }),
              HasSubstr("optimizer.beta1: got 1"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_upcycling()->set_dense_fraction(1); }),
              HasSubstr("upcycling.dense_fraction: got 1"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->set_num_steps(-3); }),
              HasSubstr("num_steps: got -3"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->set_world_size(5); }),
              HasSubstr("batch.global_batch_size: got 4, expected at least one sequence per rank"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_checkpoint()->set_keep_last(-1); }),
              HasSubstr("checkpoint.keep_last: got -1"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_reduction()->set_bucket_bytes(12); }),
              HasSubstr("reduction.bucket_bytes: got 12, expected at least 1024"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) {
                s->set_optimizer_sharding(static_cast<v1::OptimizerSharding>(9));
              }),
              HasSubstr("optimizer_sharding: got 9, expected REPLICATED or ZERO_1"));
}

TEST_F(RunSpecTest, ModelErrorsPassThrough) {
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->mutable_model()->set_preset("tinny"); }),
              HasSubstr("tiny"));
  EXPECT_THAT(
      ErrorOf([](v1::RunSpec* s) { s->mutable_model()->mutable_routing()->set_segment_length(5); }),
      HasSubstr("segment_length"));
}

TEST_F(RunSpecTest, RefusesAMissingDataset) {
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->clear_dataset_dir(); }),
              HasSubstr("--data (dataset_dir): got nothing, expected a job or the directory"));
  EXPECT_THAT(ErrorOf([](v1::RunSpec* s) { s->set_dataset_dir("/nowhere"); }),
              HasSubstr("/nowhere is not a packed dataset"));
}

TEST_F(RunSpecTest, RefusesADamagedDatasetDescription) {
  ASSERT_TRUE(WriteFileAtomically(dataset_ / kDatasetInfoName, R"({"sequence_length":"x"})").ok());
  EXPECT_THAT(ErrorOf([](v1::RunSpec*) {}), HasSubstr("dataset.json: sequence_length: got \"x\""));
}

TEST_F(RunSpecTest, RefusesADatasetWithoutInstances) {
  auto info = ReadDatasetInfo(dataset_);
  ASSERT_TRUE(info.ok()) << info.status();
  info->num_instances = info->num_tokens = 0;
  ASSERT_TRUE(WriteDatasetInfo(dataset_, *info).ok());
  EXPECT_THAT(ErrorOf([](v1::RunSpec*) {}), HasSubstr("0 training instances"));
}

}  // namespace run_spec_test
}  // namespace braid
