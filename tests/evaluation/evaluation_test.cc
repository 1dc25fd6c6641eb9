#include <cmath>
#include <fstream>
#include <numbers>
#include <sstream>

#include "base/atomic_file.h"
#include "evaluation/perplexity.h"
#include "formats/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/model_path.h"
#include "runs/run_spec.h"
#include "tests/evaluation/evaluation_fixture.h"
#include "trainer/training_state.h"

namespace braid {
namespace evaluation_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kLength = 32, kSegment = 8;

class EvaluationTest : public EvaluationFixture {};

struct Sums {
  double nats = 0, nats_after = 0;
  int64_t tokens = 0, tokens_after = 0;
};

// Scores the stream of documents one window at a time.
Sums NaiveSums(LanguageModel& model, const Tokenizer& tokenizer,
               const std::vector<std::string>& documents, MergeMode mode) {
  std::vector<int32_t> stream = {tokenizer.eos_id()};
  for (const std::string& document : documents) {
    for (const int32_t id : tokenizer.Encode(document)) stream.push_back(id);
    stream.push_back(tokenizer.eos_id());
  }
  Sums sums;
  for (size_t begin = 0; begin + 1 < stream.size(); begin += kLength) {
    std::vector<int32_t> inputs, targets;
    for (size_t t = begin; t < begin + kLength && t + 1 < stream.size(); ++t) {
      inputs.push_back(stream[t]);
      targets.push_back(stream[t + 1]);
    }
    const auto result = *model.Evaluate(inputs, targets, 1, mode, false);
    for (size_t t = 0; t < targets.size(); ++t) {
      sums.nats += result.token_loss[t];
      ++sums.tokens;
      if (t < kSegment) continue;
      sums.nats_after += result.token_loss[t];
      ++sums.tokens_after;
    }
  }
  return sums;
}

TEST_F(EvaluationTest, WindowsAreReportedOnRequestAndExcludeTheFirstPositions) {
  v1::EvaluateRequest request = Request({models_->experts});
  request.add_paths(WriteDocuments().string());
  const v1::EvaluationResult plain = Result(request);
  EXPECT_EQ(plain.evaluations(0).domains(0).windows_size(), 0);
  request.set_want_windows(true);
  request.set_first_positions(kLength / 2);
  const v1::EvaluationResult result = Result(request);
  EXPECT_EQ(result.evaluations(0).first_segment_length(), kLength / 2);
  const v1::DomainEvaluation& news = result.evaluations(0).domains(0);
  EXPECT_EQ(news.loss(), plain.evaluations(0).domains(0).loss());
  ASSERT_EQ(news.windows_size(), news.num_windows());
  double nats = 0, nats_after = 0;
  for (const v1::WindowScore& window : news.windows()) {
    EXPECT_EQ(window.num_tokens_after_first_segment(),
              std::max<int64_t>(window.num_tokens() - kLength / 2, 0));
    nats += window.loss();
    nats_after += window.loss_after_first_segment();
  }
  EXPECT_NEAR(nats, news.loss() * news.num_tokens(), 1e-9);
  EXPECT_NEAR(nats_after, news.loss_after_first_segment() * news.num_tokens_after_first_segment(),
              1e-9);
  for (const int bad : {-1, int{kLength}}) {
    request.set_first_positions(bad);
    ExpectError(request, absl::StatusCode::kInvalidArgument, "first_positions");
  }
}

TEST_F(EvaluationTest, FilesAreScoredTokenByTokenInBothRoutings) {
  v1::EvaluateRequest request = Request({models_->experts});
  request.add_paths(WriteDocuments().string());
  request.add_routings(v1::SEGMENT_ROUTING);
  request.add_routings(v1::PROMPT_ROUTING);
  const v1::EvaluationResult result = Result(request);
  ASSERT_EQ(result.evaluations_size(), 2);
  EXPECT_EQ(result.num_documents(), 3);
  EXPECT_TRUE(result.dataset_dir().empty());
  const auto model = LoadModel(Checkpoint(models_->experts)).value();
  const auto tokenizer = Tokenizer::Load(models_->tokenizer).value();
  int64_t bytes = 0;
  for (const std::string& document : Documents()) bytes += static_cast<int64_t>(document.size());
  for (int i = 0; i < 2; ++i) {
    const v1::Evaluation& evaluation = result.evaluations(i);
    EXPECT_EQ(evaluation.routing(), i == 0 ? v1::SEGMENT_ROUTING : v1::PROMPT_ROUTING);
    EXPECT_TRUE(evaluation.moe());
    EXPECT_EQ(evaluation.window_length(), kLength);
    EXPECT_EQ(evaluation.first_segment_length(), kSegment);
    const Sums sums = NaiveSums(*model, *tokenizer, Documents(),
                                i == 0 ? MergeMode::kSegment : MergeMode::kPrompt);
    ASSERT_EQ(evaluation.domains_size(), 1);
    const v1::DomainEvaluation& news = evaluation.domains(0);
    EXPECT_EQ(news.domain(), "news");
    EXPECT_EQ(news.num_tokens(), sums.tokens);
    EXPECT_EQ(news.num_tokens_after_first_segment(), sums.tokens_after);
    EXPECT_EQ(news.num_windows(), (sums.tokens + kLength - 1) / kLength);
    EXPECT_EQ(news.num_bytes(), bytes);
    EXPECT_NEAR(news.loss(), sums.nats / static_cast<double>(sums.tokens), 1e-5);
    EXPECT_NEAR(news.loss_after_first_segment(),
                sums.nats_after / static_cast<double>(sums.tokens_after), 1e-5);
    EXPECT_NEAR(news.bits_per_byte(), sums.nats / std::numbers::ln2 / static_cast<double>(bytes),
                1e-5);
    EXPECT_LT(news.perplexity_interval().low(), news.perplexity());
    EXPECT_GT(news.perplexity_interval().high(), news.perplexity());
  }
}

TEST_F(EvaluationTest, DenseAndExpertsAreCompared) {
  v1::EvaluateRequest request = Request({models_->dense, models_->experts});
  request.add_routings(v1::SEGMENT_ROUTING);
  request.add_routings(v1::PROMPT_ROUTING);
  const v1::EvaluationResult result = Result(request);
  EXPECT_EQ(result.dataset_dir(), models_->dataset.string());
  // The routing has no meaning for the dense model.
  ASSERT_EQ(result.evaluations_size(), 3);
  EXPECT_FALSE(result.evaluations(0).moe());
  EXPECT_TRUE(result.evaluations(1).moe());
  EXPECT_EQ(events_.back().done(), events_.back().total());
  EXPECT_EQ(events_.back().total(), 3 * 8);
  ASSERT_EQ(result.comparisons_size(), 2);
  for (int i = 0; i < 2; ++i) {
    const v1::EvaluationComparison& comparison = result.comparisons(i);
    EXPECT_EQ(comparison.baseline(), 0);
    EXPECT_EQ(comparison.evaluation(), i + 1);
    ASSERT_EQ(comparison.domains_size(), 3);
    const v1::DomainDifference& all = comparison.domains(2);
    EXPECT_NEAR(all.loss_difference(),
                result.evaluations(0).total().loss_after_first_segment() -
                    result.evaluations(i + 1).total().loss_after_first_segment(),
                1e-12);
    EXPECT_LE(all.loss_difference_interval().low(), all.loss_difference());
    EXPECT_GE(all.loss_difference_interval().high(), all.loss_difference());
  }
  // The figures are the same as in a separate evaluation.
  EXPECT_EQ(Result(Request({models_->experts})).evaluations(0).total().DebugString(),
            result.evaluations(1).total().DebugString());
}

TEST_F(EvaluationTest, RoutingIsAMeanOverDecisions) {
  const v1::EvaluationResult result = Result(Request({models_->experts}));
  ASSERT_EQ(result.evaluations(0).domains_size(), 2);
  for (const v1::DomainEvaluation& domain : result.evaluations(0).domains()) {
    ASSERT_EQ(domain.routing_size(), 2);
    double sum = 0;
    for (double weight : domain.routing(1).weights()) sum += weight;
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST_F(EvaluationTest, RequestNamesARunOrACheckpoint) {
  const v1::Evaluation by_run = Result(Request({models_->experts})).evaluations(0);
  EXPECT_EQ(by_run.step(), 2);
  EXPECT_FALSE(events_.front().has_result());
  EXPECT_EQ(events_.front().total(), 8);
  const v1::EvaluationResult by_checkpoint = Result(Request({Checkpoint(models_->experts)}));
  EXPECT_EQ(by_checkpoint.evaluations(0).total().DebugString(), by_run.total().DebugString());
}

TEST_F(EvaluationTest, LimitsWindowsOfEachDomain) {
  v1::EvaluateRequest request = Request({models_->experts});
  request.set_max_windows_per_domain(2);
  const v1::EvaluationResult result = Result(request);
  ASSERT_EQ(result.evaluations(0).domains_size(), 2);
  for (const v1::DomainEvaluation& domain : result.evaluations(0).domains()) {
    EXPECT_EQ(domain.num_windows(), 2);
    EXPECT_EQ(domain.num_tokens(), 2 * kLength);
  }
}

TEST_F(EvaluationTest, BootstrapUsesTheSettingsOfTheRequest) {
  v1::EvaluateRequest request = Request({models_->experts});
  const std::string standard = Result(request).DebugString();
  EXPECT_EQ(Result(request).DebugString(), standard);
  request.set_confidence(0.5);
  const v1::EvaluationResult narrow = Result(request);
  EXPECT_EQ(narrow.confidence(), 0.5);
  request.set_confidence(0.99);
  EXPECT_LT(Result(request).evaluations(0).total().perplexity_interval().low(),
            narrow.evaluations(0).total().perplexity_interval().low());
  for (const double confidence : {-0.1, 1.0, 95.0, std::nan("")}) {
    request.set_confidence(confidence);
    ExpectError(request, absl::StatusCode::kInvalidArgument, "confidence: got");
  }
  request.clear_confidence();
  request.set_bootstrap_samples(-1);
  ExpectError(request, absl::StatusCode::kInvalidArgument, "bootstrap_samples: got -1");
}

TEST_F(EvaluationTest, TextShorterThanASegmentHasNoMainFigure) {
  const fs::path file = NewDirectory("text") / "short.txt";
  std::ofstream(file) << "a";
  v1::EvaluateRequest request = Request({models_->experts});
  request.add_paths(file.string());
  const v1::DomainEvaluation total = Result(request).evaluations(0).total();
  EXPECT_GT(total.perplexity(), 1);
  EXPECT_EQ(total.num_bytes(), 1);
  EXPECT_EQ(total.num_tokens_after_first_segment(), 0);
  EXPECT_EQ(total.perplexity_after_first_segment(), 0);
  EXPECT_FALSE(total.has_perplexity_interval());
}

TEST_F(EvaluationTest, RefusesMeaninglessRequests) {
  ExpectError({}, absl::StatusCode::kInvalidArgument, "models: ");
  ExpectError(Request({models_->experts, models_->dense, models_->experts}),
              absl::StatusCode::kInvalidArgument, "twice, expected each model once");
  v1::EvaluateRequest both = Request({models_->experts});
  both.set_dataset_dir(models_->dataset.string());
  both.add_paths("/x.txt");
  ExpectError(both, absl::StatusCode::kInvalidArgument, "dataset_dir: ");
  v1::EvaluateRequest routing = Request({models_->experts});
  routing.add_routings(static_cast<v1::InferenceRouting>(9));
  ExpectError(routing, absl::StatusCode::kInvalidArgument, "routings: got 9");
  v1::EvaluateRequest nothing = Request({models_->experts});
  nothing.add_paths(NewDirectory("text").string());
  ExpectError(nothing, absl::StatusCode::kInvalidArgument, "text-");
  v1::EvaluateRequest absent = Request({models_->experts});
  absent.add_paths("/nowhere.txt");
  ExpectError(absent, absl::StatusCode::kNotFound, "/nowhere.txt");
}

TEST_F(EvaluationTest, CheckpointOutsideARunNeedsData) {
  const fs::path alone = NewDirectory("alone") / "checkpoint";
  fs::copy(Checkpoint(models_->experts), alone);
  ExpectError(Request({alone}), absl::StatusCode::kInvalidArgument, "--text");
  v1::EvaluateRequest request = Request({alone});
  request.set_dataset_dir(models_->dataset.string());
  EXPECT_EQ(Result(request).evaluations_size(), 1);
}

TEST_F(EvaluationTest, RefusesDataOfAnotherTokenizer) {
  const fs::path dataset = NewTextDataset(models_->tokenizer);
  ASSERT_TRUE(WriteFileAtomically(dataset / "tokenizer.model", "another").ok());
  SealDataset(dataset);
  v1::EvaluateRequest request = Request({models_->experts});
  request.set_dataset_dir(dataset.string());
  ExpectError(request, absl::StatusCode::kFailedPrecondition, "another tokenizer");
}

TEST_F(EvaluationTest, RefusesDamagedData) {
  const fs::path dataset = NewTextDataset(models_->tokenizer);
  std::string bytes = *ReadFile(dataset / "heldout/odd.bin");
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(dataset / "heldout/odd.bin", bytes).ok());
  v1::EvaluateRequest request = Request({models_->experts});
  request.set_dataset_dir(dataset.string());
  const absl::Status status = Run(request);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("heldout/odd.bin"), HasSubstr("CRC")));
}

TEST_F(EvaluationTest, ModelPathErrorsAreClear) {
  const auto message = [&](const fs::path& path) {
    return std::string(FindModel(path, /*strict=*/false).status().message());
  };
  EXPECT_THAT(message("/nowhere"), HasSubstr("/nowhere does not exist"));
  EXPECT_THAT(message(models_->dataset),
              HasSubstr("is not a model directory: expected a run directory"));
  EXPECT_THAT(message(models_->dataset / "dataset.json"), testing::Not(testing::IsEmpty()));
  const fs::path imported = NewDirectory("import");
  std::ofstream(imported / "config.json") << "{}";
  EXPECT_THAT(message(imported),
              HasSubstr("; import it first: braid import " + imported.string() + " -o CHECKPOINT"));
  const RunDirectory empty(NewDirectory("run"));
  ASSERT_TRUE(empty.WriteSpec(TinySpec(models_->dataset, 8)).ok());
  EXPECT_THAT(message(empty.root()), HasSubstr("holds no checkpoint yet"));
}

}  // namespace evaluation_test
}  // namespace braid
