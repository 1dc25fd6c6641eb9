#include "evaluation/fixed_weights.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <string>

#include "cli/corpus_documents.h"
#include "evaluation/perplexity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/merged_model.h"
#include "tests/model/random_model.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace fixed_weights_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kLength = 24, kSegment = 8;
constexpr int kExperts = 4;

DomainText RandomDomain(const std::string& name, size_t num_tokens, std::mt19937* random) {
  DomainText domain{.name = name,
                    .tokens = RandomTokens(num_tokens, 50, random),
                    .bytes = std::vector<int32_t>(num_tokens, 1),
                    .documents = {}};
  if (num_tokens > 0) domain.documents.push_back(0);
  return domain;
}

// Two or three windows per domain, the last one short. Names are not in alphabetical order.
EvaluationText RandomText(const std::vector<std::string>& names) {
  std::mt19937 random(7);
  EvaluationText text{.domains = {}, .eos_id = 2};
  for (const std::string& name : names) {
    text.domains.push_back(RandomDomain(name, 2 * kLength - 3 + 12 * name.size(), &random));
  }
  return text;
}

// Naive sums for a domain, token by token: nats, and by layer the weights over segments with text.
struct Naive {
  double nats = 0, nats_after = 0;
  double segments = 0;
  ExpertWeights weight_sums;
};

Naive ScoreByHand(LanguageModel& model, const DomainText& domain, int32_t eos) {
  Naive naive;
  for (size_t begin = 0; begin < domain.tokens.size(); begin += kLength) {
    const size_t end = std::min(begin + kLength, domain.tokens.size());
    std::vector<int32_t> inputs, targets;
    for (size_t t = begin; t < end; ++t) {
      inputs.push_back(t == 0 ? eos : domain.tokens[t - 1]);
      targets.push_back(domain.tokens[t]);
    }
    const ForwardResult result = *model.Evaluate(inputs, targets, 1, MergeMode::kSegment, true);
    for (size_t t = 0; t < targets.size(); ++t) {
      naive.nats += result.token_loss[t];
      if (t >= kSegment) naive.nats_after += result.token_loss[t];
    }
    const size_t segments = (targets.size() + kSegment - 1) / kSegment;
    naive.segments += static_cast<double>(segments);
    naive.weight_sums.resize(result.routing.size(), std::vector<double>(kExperts));
    for (size_t layer = 0; layer < result.routing.size(); ++layer) {
      for (size_t i = 0; i < segments * kExperts; ++i) {
        naive.weight_sums[layer][i % kExperts] += result.routing[layer].weights[i];
      }
    }
  }
  return naive;
}

ExpertWeights MeanOf(const std::vector<Naive>& domains) {
  ExpertWeights mean(domains[0].weight_sums.size(), std::vector<double>(kExperts));
  double segments = 0;
  for (const Naive& domain : domains) segments += domain.segments;
  for (size_t layer = 0; layer < mean.size(); ++layer) {
    for (int e = 0; e < kExperts; ++e) {
      for (const Naive& domain : domains) mean[layer][e] += domain.weight_sums[layer][e] / segments;
    }
  }
  return mean;
}

void ExpectNear(const ExpertWeights& a, const ExpertWeights& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t layer = 0; layer < a.size(); ++layer) {
    for (int e = 0; e < kExperts; ++e) EXPECT_NEAR(a[layer][e], b[layer][e], 1e-6);
  }
}

LossSums AfterFirstSegment(const DomainScore& domain) {
  LossSums sums;
  for (const UnitScore& window : domain.windows) sums.Add(window.after_first_segment);
  return sums;
}

TextScore Routed(LanguageModel& model, const EvaluationText& text) {
  return *ScoreText(model, text, {.first_segment_length = kSegment}, [](int64_t) {});
}

// Compares a score with `weights` to dense models made of `expected`, by domain.
void ExpectScoreBy(LanguageModel& model, const EvaluationText& text, v1::FixedWeights weights,
                   const std::vector<ExpertWeights>& expected) {
  const TextScore routed = Routed(model, text);
  int64_t windows = 0;
  const TextScore score =
      *ScoreWithFixedWeights(model, text, weights, routed, {.first_segment_length = kSegment},
                             [&](int64_t scored) { windows += scored; });
  EXPECT_EQ(windows, text.num_windows(kLength));
  ASSERT_EQ(score.size(), text.domains.size());
  for (size_t d = 0; d < score.size(); ++d) {
    const auto merged = MergeExperts(model, expected[d]).value();
    const Naive naive = ScoreByHand(*merged, text.domains[d], text.eos_id);
    EXPECT_NEAR(AfterFirstSegment(score[d]).nats, naive.nats_after, 1e-3);
    EXPECT_GT(std::abs(naive.nats_after - AfterFirstSegment(routed[d]).nats), 1e-2);
    EXPECT_EQ(score[d].windows.size(), routed[d].windows.size());
    ASSERT_EQ(score[d].routing.size(), expected[d].size());
    ExpertWeights used;
    for (const RoutingTotals& layer : score[d].routing) used.push_back(MeanWeights(layer));
    ExpectNear(used, expected[d]);
    EXPECT_EQ(score[d].routing[0].num_decisions(), routed[d].routing[0].num_decisions());
  }
}

class FixedWeightsTest : public testing::TestWithParam<v1::Router> {
 protected:
  std::vector<Naive> ByHand(const EvaluationText& text) {
    std::vector<Naive> domains;
    for (const DomainText& domain : text.domains) {
      domains.push_back(ScoreByHand(*model_, domain, text.eos_id));
    }
    return domains;
  }

  std::unique_ptr<LanguageModel> model_ = SharpModel(SmallModelConfig(kExperts, GetParam()), 11);
};

TEST_P(FixedWeightsTest, AverageIsTheMeanOverAllSegmentsOfAllDomains) {
  const EvaluationText text = RandomText({"news", "law", "a"});
  const ExpertWeights mean = MeanOf(ByHand(text));
  ExpectScoreBy(*model_, text, v1::AVERAGE_WEIGHTS, {mean, mean, mean});
}

TEST_P(FixedWeightsTest, UniformIsOneOverTheNumberOfExperts) {
  const ExpertWeights equal(2, std::vector<double>(kExperts, 0.25));
  ExpectScoreBy(*model_, RandomText({"news", "law"}), v1::UNIFORM_WEIGHTS, {equal, equal});
}

TEST_P(FixedWeightsTest, NextDomainIsTheNextByNameAndAfterTheLastTheFirst) {
  const EvaluationText three = RandomText({"news", "law", "a"});
  const std::vector<Naive> of = ByHand(three);
  ExpectScoreBy(*model_, three, v1::NEXT_DOMAIN_WEIGHTS,
                {MeanOf({of[2]}), MeanOf({of[0]}), MeanOf({of[1]})});
  const EvaluationText two = RandomText({"x", "yy"});
  const std::vector<Naive> of_two = ByHand(two);
  ExpectScoreBy(*model_, two, v1::NEXT_DOMAIN_WEIGHTS, {MeanOf({of_two[1]}), MeanOf({of_two[0]})});
}

INSTANTIATE_TEST_SUITE_P(MergingRouters, FixedWeightsTest,
                         testing::Values(v1::CAUSAL_SEGMENT, v1::PREFIX),
                         [](const auto& router) { return v1::Router_Name(router.param); });

// A domain without text has no weights for the others.
TEST(FixedWeightsOfDomainsTest, DomainWithoutTextIsPassedOver) {
  EvaluationText text = RandomText({"a", "c"});
  std::mt19937 random(1);
  text.domains.push_back(RandomDomain("b", 0, &random));
  const auto model = SharpModel(SmallModelConfig(kExperts), 11);
  const TextScore routed = Routed(*model, text);
  const std::vector<ExpertWeights> weights = ResolveWeights(v1::NEXT_DOMAIN_WEIGHTS, routed);
  const auto of = [&](size_t d) { return MeanWeights(routed[d].routing[1]); };
  EXPECT_EQ(weights[0][1], of(1));
  EXPECT_EQ(weights[1][1], of(0));
  EXPECT_EQ(weights[2][1], of(1));
  const TextScore score =
      *ScoreWithFixedWeights(*model, text, v1::NEXT_DOMAIN_WEIGHTS, routed, {}, [](int64_t) {});
  EXPECT_THAT(score[2].windows, IsEmpty());
  EXPECT_THAT(score[2].routing, IsEmpty());
}

TEST(FixedWeightsOfDomainsTest, ModelWithoutMergedExpertsIsRefused) {
  const EvaluationText text = RandomText({"a", "b"});
  const auto model = SharpModel(SmallModelConfig(kExperts, v1::EXPERT_CHOICE_SEGMENT), 11);
  const auto score = ScoreWithFixedWeights(*model, text, v1::UNIFORM_WEIGHTS, Routed(*model, text),
                                           {}, [](int64_t) {});
  EXPECT_EQ(score.status().code(), absl::StatusCode::kInvalidArgument);
}

// Requests, on models of two steps and a dataset with the domains "even" and "odd".
class FixedWeightsRequestTest : public testing::Test {
 protected:
  struct Runs {
    fs::path dataset = NewTextDataset(NewTokenizer("the cat sat on the mat and ran. ", 280));
    std::string dense = NewTextRun(dataset, 1).root().string();
    std::string experts = NewTextRun(dataset, kExperts).root().string();
    std::string prefix = NewTextRun(dataset, kExperts, v1::PREFIX).root().string();
    std::string choice = NewTextRun(dataset, kExperts, v1::EXPERT_CHOICE_TOKEN).root().string();
  };

  static void SetUpTestSuite() { runs_ = new Runs; }
  static void TearDownTestSuite() { delete runs_; }

  static v1::EvaluateRequest Request(const std::vector<std::string>& models,
                                     const std::vector<v1::FixedWeights>& weights) {
    v1::EvaluateRequest request;
    for (const std::string& model : models) request.add_models(model);
    for (const v1::FixedWeights each : weights) request.add_fixed_weights(each);
    request.set_num_threads(1);
    return request;
  }

  absl::Status Run(const v1::EvaluateRequest& request) {
    return Evaluate(request, ReadCorpusDocuments,
                    [&](const v1::EvaluateEvent& event) { last_ = event; });
  }

  v1::EvaluationResult Result(const v1::EvaluateRequest& request) {
    const absl::Status status = Run(request);
    EXPECT_TRUE(status.ok()) << status;
    return last_.result();
  }

  std::string Error(const v1::EvaluateRequest& request) {
    const absl::Status status = Run(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  // "model, routing or weights" of each evaluation.
  std::vector<std::string> Labels(const v1::EvaluationResult& result) {
    std::vector<std::string> labels;
    for (const v1::Evaluation& evaluation : result.evaluations()) {
      const bool fixed = evaluation.fixed_weights() != v1::FIXED_WEIGHTS_UNSPECIFIED;
      EXPECT_EQ(fixed, evaluation.routing() == v1::INFERENCE_ROUTING_UNSPECIFIED);
      labels.push_back((evaluation.model() == runs_->experts  ? "experts "
                        : evaluation.model() == runs_->prefix ? "prefix "
                        : evaluation.model() == runs_->choice ? "choice "
                                                              : "dense ") +
                       (fixed ? v1::FixedWeights_Name(evaluation.fixed_weights())
                              : v1::InferenceRouting_Name(evaluation.routing())));
    }
    return labels;
  }

  static Runs* runs_;
  v1::EvaluateEvent last_;
};

FixedWeightsRequestTest::Runs* FixedWeightsRequestTest::runs_ = nullptr;

TEST_F(FixedWeightsRequestTest, FollowsTheRoutingsOfModelsThatMergeAndCountsInTheTotals) {
  v1::EvaluateRequest request =
      Request({runs_->dense, runs_->experts, runs_->choice, runs_->prefix},
              {v1::UNIFORM_WEIGHTS, v1::NEXT_DOMAIN_WEIGHTS, v1::UNIFORM_WEIGHTS});
  request.add_routings(v1::PROMPT_ROUTING);
  request.add_routings(v1::SEGMENT_ROUTING);
  const v1::EvaluationResult result = Result(request);
  EXPECT_THAT(
      Labels(result),
      ElementsAre("dense PROMPT_ROUTING", "experts PROMPT_ROUTING", "experts SEGMENT_ROUTING",
                  "experts UNIFORM_WEIGHTS", "experts NEXT_DOMAIN_WEIGHTS", "choice PROMPT_ROUTING",
                  "choice SEGMENT_ROUTING", "prefix PROMPT_ROUTING", "prefix SEGMENT_ROUTING",
                  "prefix UNIFORM_WEIGHTS", "prefix NEXT_DOMAIN_WEIGHTS"));
  EXPECT_EQ(last_.total(), 11 * 8);
  EXPECT_EQ(last_.done(), last_.total());
  ASSERT_EQ(result.comparisons_size(), 10);
  for (int i = 0; i < 10; ++i) {
    const v1::EvaluationComparison& comparison = result.comparisons(i);
    EXPECT_EQ(comparison.evaluation(), i + 1);
    EXPECT_FALSE(comparison.paired_by_document());
    EXPECT_NEAR(comparison.domains(2).loss_difference(),
                result.evaluations(0).total().loss_after_first_segment() -
                    result.evaluations(i + 1).total().loss_after_first_segment(),
                1e-12);
    EXPECT_TRUE(comparison.domains(2).has_loss_difference_interval());
  }
}

TEST_F(FixedWeightsRequestTest, EvaluationsHaveTheirWeightsWindowsAndLengths) {
  v1::EvaluateRequest request = Request(
      {runs_->experts}, {v1::AVERAGE_WEIGHTS, v1::UNIFORM_WEIGHTS, v1::NEXT_DOMAIN_WEIGHTS});
  request.set_want_windows(true);
  request.set_first_positions(12);
  const v1::EvaluationResult result = Result(request);
  ASSERT_EQ(result.evaluations_size(), 4);
  const v1::Evaluation& own = result.evaluations(0);
  for (const v1::Evaluation& fixed : result.evaluations()) {
    EXPECT_TRUE(fixed.moe());
    EXPECT_EQ(fixed.step(), 2);
    EXPECT_EQ(fixed.first_segment_length(), 12);
    EXPECT_EQ(fixed.window_length(), own.window_length());
    for (int d = 0; d < 2; ++d) {
      const v1::DomainEvaluation& domain = fixed.domains(d);
      EXPECT_EQ(domain.num_tokens(), own.domains(d).num_tokens());
      ASSERT_EQ(domain.windows_size(), domain.num_windows());
      double nats = 0, nats_after = 0;
      for (const v1::WindowScore& window : domain.windows()) {
        nats += window.loss();
        nats_after += window.loss_after_first_segment();
      }
      EXPECT_NEAR(nats, domain.loss() * domain.num_tokens(), 1e-9);
      EXPECT_NEAR(nats_after,
                  domain.loss_after_first_segment() * domain.num_tokens_after_first_segment(),
                  1e-9);
    }
  }
  for (int layer = 0; layer < 2; ++layer) {
    for (int e = 0; e < kExperts; ++e) {
      const auto weight = [&](int evaluation, int domain) {
        const v1::LayerWeights& of = result.evaluations(evaluation).domains(domain).routing(layer);
        EXPECT_EQ(of.layer(), layer);
        return of.weights(e);
      };
      for (int d = 0; d < 2; ++d) {
        EXPECT_NEAR(weight(1, d), own.total().routing(layer).weights(e), 1e-12);
        EXPECT_NEAR(weight(2, d), 0.25, 1e-12);
        EXPECT_NEAR(weight(3, d), weight(0, 1 - d), 1e-12);
      }
    }
  }
}

TEST_F(FixedWeightsRequestTest, ChangesNothingInTheOtherEvaluations) {
  const v1::EvaluationResult plain = Result(Request({runs_->experts}, {}));
  const v1::EvaluationResult result = Result(Request({runs_->experts}, {v1::AVERAGE_WEIGHTS}));
  EXPECT_EQ(plain.evaluations(0).DebugString(), result.evaluations(0).DebugString());
}

TEST_F(FixedWeightsRequestTest, RefusesMeaninglessRequests) {
  v1::EvaluateRequest prompt = Request({runs_->experts}, {v1::UNIFORM_WEIGHTS});
  prompt.add_routings(v1::PROMPT_ROUTING);
  EXPECT_THAT(Error(prompt), HasSubstr("SEGMENT_ROUTING"));
  for (const int number : {0, 9}) {
    const auto weights = static_cast<v1::FixedWeights>(number);
    EXPECT_THAT(Error(Request({runs_->experts}, {weights})),
                HasSubstr("fixed_weights: got " + std::to_string(number)));
  }
  EXPECT_THAT(Error(Request({runs_->dense, runs_->choice}, {v1::UNIFORM_WEIGHTS})),
              HasSubstr(runs_->dense + ": fixed_weights: got UNIFORM_WEIGHTS, but the router is "
                                       "DENSE, expected a model that merges experts"));
  const fs::path file = NewDirectory("text") / "only.txt";
  std::ofstream(file) << "the cat sat on the mat";
  v1::EvaluateRequest one_domain = Request({runs_->experts}, {v1::NEXT_DOMAIN_WEIGHTS});
  one_domain.add_paths(file.string());
  EXPECT_THAT(Error(one_domain), HasSubstr("needs two domains with text, got 1"));
}

}  // namespace fixed_weights_test
}  // namespace braid
