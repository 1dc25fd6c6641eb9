#include "evaluation/routing_analysis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "braid/v1/analysis.pb.h"
#include "formats/indexed_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/parameter_layout.h"
#include "runs/run_spec.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace routing_analysis_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kExperts = 4, kSegment = 8;
const auto kIgnoreProgress = [](int64_t, int64_t) {};

std::string Numbers(std::span<const int32_t> tokens) { return absl::StrJoin(tokens, " "); }

// One decision of one layer, computed by routing its window alone.
struct Decision {
  std::string domain;
  int64_t window;
  int64_t number;
  std::vector<double> weights;
};

double NaiveEntropy(const std::vector<double>& w) {
  double entropy = 0;
  for (const double p : w) entropy += p > 0 ? p * std::log(1 / p) : 0;
  return entropy;
}

std::vector<double> MeanOf(const std::vector<Decision>& decisions, const std::string& domain) {
  std::vector<double> mean(kExperts);
  double count = 0;
  for (const Decision& d : decisions) {
    if (!domain.empty() && d.domain != domain) continue;
    for (int e = 0; e < kExperts; ++e) mean[e] += d.weights[e];
    ++count;
  }
  for (double& w : mean) w /= count;
  return mean;
}

// A model whose experts have trained briefly, so that its routers differ from uniform.
class RoutingAnalysisTest : public testing::Test {
 protected:
  RoutingAnalysisTest() : dataset_(NewDirectory("data")) {
    WriteTinyDataset(dataset_);
    SetModelThreads(1);
    v1::RunSpec spec = TinySpec(dataset_, 8);
    spec.mutable_upcycling()->set_dense_fraction(0);
    model_ = std::move(InitialState(spec, 0)->model);
    // Routers sharper than at initialization.
    for (Parameter& parameter : model_->parameters()) {
      if (!parameter.name.ends_with("mlp.router.weight")) continue;
      for (float& value : parameter.value) value *= 20;
    }
  }

  RoutingAnalysisOptions Options(std::vector<int> layers) const {
    return {.layers = std::move(layers), .texts_per_expert = 2, .decode = Numbers};
  }

  static std::vector<int32_t> Window(const fs::path& dataset, const std::string& domain,
                                     int64_t window) {
    return IndexedDataset::Open(dataset / "heldout" / domain)->Read(window);
  }

  std::vector<Decision> Decisions(int layer) {
    std::vector<Decision> decisions;
    for (const auto& [domain, windows] : std::map<std::string, int>{{"even", 5}, {"odd", 3}}) {
      for (int64_t window = 0; window < windows; ++window) {
        const std::vector<int32_t> tokens = Window(dataset_, domain, window);
        const std::vector<int32_t> inputs(tokens.begin(), tokens.end() - 1);
        const std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
        const auto result = *model_->Evaluate(inputs, targets, 1, MergeMode::kSegment, true);
        const std::vector<float>& weights = result.routing[layer].weights;
        for (size_t n = 0; n * kSegment < inputs.size(); ++n) {
          decisions.push_back({domain,
                               window,
                               static_cast<int64_t>(n),
                               {&weights[n * kExperts], &weights[(n + 1) * kExperts]}});
        }
      }
    }
    return decisions;
  }

  fs::path dataset_;
  std::unique_ptr<LanguageModel> model_;
};

TEST_F(RoutingAnalysisTest, AgreesWithOneWindowAtATime) {
  const auto analysis = AnalyzeModelRouting(*model_, dataset_, Options({0, 1}), kIgnoreProgress);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->layers_size(), 2);
  EXPECT_EQ(analysis->num_experts(), kExperts);
  for (int layer = 0; layer < 2; ++layer) {
    const v1::LayerRoutingAnalysis& got = analysis->layers(layer);
    const std::vector<Decision> decisions = Decisions(layer);
    double entropy = 0, kl = 0;
    std::vector<double> active(kExperts);
    for (const Decision& d : decisions) {
      entropy += NaiveEntropy(d.weights) / static_cast<double>(decisions.size());
      for (int e = 0; e < kExperts; ++e) active[e] += d.weights[e] > 2.0 / kExperts;
    }
    ASSERT_EQ(got.domains_size(), 2);
    const std::vector<double> even = MeanOf(decisions, "even"), odd = MeanOf(decisions, "odd");
    for (int e = 0; e < kExperts; ++e) {
      const double mean = (even[e] + odd[e]) / 2;
      kl += (even[e] * std::log(even[e] / mean) + odd[e] * std::log(odd[e] / mean)) / 2;
      EXPECT_NEAR(got.domains(0).weights(e), even[e], 1e-5);
      EXPECT_NEAR(got.domains(1).weights(e), odd[e], 1e-5);
      EXPECT_NEAR(got.active_share(e), active[e] / static_cast<double>(decisions.size()), 1e-9);
    }
    EXPECT_EQ(got.domains(0).num_decisions() + got.domains(1).num_decisions(),
              static_cast<int64_t>(decisions.size()));
    EXPECT_NEAR(got.entropy(), entropy, 1e-5);
    EXPECT_NEAR(got.divergence(), kl, 1e-5);
    EXPECT_NEAR(got.effective_experts(), std::exp(NaiveEntropy(MeanOf(decisions, ""))), 1e-4);
  }
}

TEST_F(RoutingAnalysisTest, ShowsTheRouterInputsWithTheHighestWeights) {
  const auto analysis = *AnalyzeModelRouting(*model_, dataset_, Options({1}), kIgnoreProgress);
  const std::vector<Decision> decisions = Decisions(1);
  ASSERT_EQ(analysis.layers(0).texts_size(), kExperts);
  for (const v1::ExpertTexts& expert : analysis.layers(0).texts()) {
    ASSERT_EQ(expert.texts_size(), 2);
    double highest = 0;
    for (const Decision& d : decisions) highest = std::max(highest, d.weights[expert.expert()]);
    EXPECT_NEAR(expert.texts(0).weight(), highest, 1e-5);
    EXPECT_GE(expert.texts(0).weight(), expert.texts(1).weight());
    EXPECT_NE(std::tuple(expert.texts(0).domain(), expert.texts(0).window()),
              std::tuple(expert.texts(1).domain(), expert.texts(1).window()));
    for (const v1::ExpertText& text : expert.texts()) {
      const std::vector<int32_t> tokens = Window(dataset_, text.domain(), text.window());
      const size_t begin = static_cast<size_t>(text.segment()) * kSegment;
      ASSERT_LT(begin, tokens.size());
      const size_t count = std::min<size_t>(kSegment, tokens.size() - 1 - begin);
      EXPECT_EQ(text.text(), Numbers(std::span(tokens).subspan(begin, count)));
      EXPECT_TRUE(std::ranges::any_of(decisions, [&](const Decision& d) {
        return d.domain == text.domain() && d.window == text.window() &&
               std::max<int64_t>(d.number - 1, 0) == text.segment() &&
               std::abs(d.weights[expert.expert()] - text.weight()) < 1e-5;
      }));
    }
  }
}

// EOS is 2 here; every window of the fixture gets one after its tenth token.
TEST_F(RoutingAnalysisTest, CountsTheDocumentsOfTheSplit) {
  auto writer = IndexedDatasetWriter::Create(dataset_ / "heldout" / "odd", 64);
  const int32_t eos = ReadDatasetInfo(dataset_)->eos_id;
  for (int window = 0; window < 3; ++window) {
    std::vector<int32_t> tokens(33, 5 + window);
    tokens[10] = eos;
    ASSERT_TRUE((*writer)->AddSequence(tokens).ok());
  }
  ASSERT_TRUE((*writer)->Commit().ok());
  RoutingAnalysisOptions options = Options({0});
  options.texts_per_expert = 8;
  const auto analysis = *AnalyzeModelRouting(*model_, dataset_, options, kIgnoreProgress);
  int found = 0;
  for (const v1::ExpertText& text : analysis.layers(0).texts(0).texts()) {
    if (text.domain() != "odd") continue;
    ++found;
    const int64_t begun = text.window() + (text.segment() * kSegment > 10 ? 1 : 0);
    EXPECT_EQ(text.document_number(), begun) << text.DebugString();
    EXPECT_EQ(text.document(), "");
  }
  EXPECT_EQ(found, 3);
}

TEST_F(RoutingAnalysisTest, SimilarityIsTheCosineOfTheExpertsParameters) {
  const auto analysis = *AnalyzeModelRouting(*model_, dataset_, Options({1}), kIgnoreProgress);
  std::vector<std::vector<double>> experts(kExperts);
  for (const Parameter& parameter : model_->parameters()) {
    if (!parameter.name.starts_with(absl::StrCat(LayerPrefix(1), "mlp.experts."))) continue;
    const size_t size = parameter.value.size() / kExperts;
    for (size_t i = 0; i < parameter.value.size(); ++i) {
      experts[i / size].push_back(parameter.value[i]);
    }
  }
  const auto dot = [&](int a, int b) {
    double sum = 0;
    for (size_t i = 0; i < experts[a].size(); ++i) sum += experts[a][i] * experts[b][i];
    return sum;
  };
  ASSERT_EQ(analysis.layers(0).expert_similarity_size(), kExperts * kExperts);
  for (int a = 0; a < kExperts; ++a) {
    for (int b = 0; b < kExperts; ++b) {
      EXPECT_NEAR(analysis.layers(0).expert_similarity(a * kExperts + b),
                  dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)), 1e-6);
    }
  }
}

TEST_F(RoutingAnalysisTest, LimitsWindowsAndReportsProgress) {
  RoutingAnalysisOptions options = Options({0});
  options.max_windows_per_domain = 2;
  int64_t last = 0, all = 0;
  const auto analysis =
      AnalyzeModelRouting(*model_, dataset_, options, [&](int64_t done, int64_t total) {
        last = done;
        all = total;
      });
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(last, 4);
  EXPECT_EQ(all, 4);
  EXPECT_EQ(analysis->layers(0).domains(0).num_decisions(), 2 * 32 / kSegment);
  options.max_windows_per_domain = -1;
  EXPECT_THAT(
      std::string(
          AnalyzeModelRouting(*model_, dataset_, options, kIgnoreProgress).status().message()),
      HasSubstr("max_windows_per_domain: got -1"));
}

TEST_F(RoutingAnalysisTest, ShowsTheInputsOfOtherRouters) {
  for (const v1::Router router : {v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT, v1::EXPERT_CHOICE_TOKEN}) {
    v1::RunSpec spec = TinySpec(dataset_, 8);
    spec.mutable_upcycling()->set_dense_fraction(0);
    spec.mutable_model()->mutable_routing()->set_router(router);
    model_ = std::move(InitialState(spec, 0)->model);
    const auto analysis = AnalyzeModelRouting(*model_, dataset_, Options({1}), kIgnoreProgress);
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    const bool tokens = router == v1::EXPERT_CHOICE_TOKEN;
    const v1::DomainRouting& odd = analysis->layers(0).domains(1);
    // Two whole windows of 32 positions, and one of 9.
    EXPECT_EQ(odd.num_decisions(), tokens ? 73 : 10) << v1::Router_Name(router);
    ASSERT_EQ(analysis->layers(0).texts_size(), kExperts);
    for (const v1::ExpertTexts& expert : analysis->layers(0).texts()) {
      EXPECT_GT(expert.texts_size(), 0);
      for (const v1::ExpertText& text : expert.texts()) {
        const std::vector<int32_t> window = Window(dataset_, text.domain(), text.window());
        EXPECT_TRUE(router != v1::PREFIX || text.segment() == 0);
        if (tokens) {
          EXPECT_TRUE(text.text().ends_with(absl::StrCat(window[text.segment()])));
        }
      }
    }
  }
}

// At most one of four weights exceeds 2/E, but each token uses two experts.
TEST_F(RoutingAnalysisTest, ExpertsThatTokensChooseAreActive) {
  v1::RunSpec spec = TinySpec(dataset_, 8);
  spec.mutable_upcycling()->set_dense_fraction(0);
  v1::RoutingConfig* const routing = spec.mutable_model()->mutable_routing();
  routing->set_router(v1::TOKEN_CHOICE);
  routing->mutable_token()->set_active_experts(2);
  model_ = std::move(InitialState(ResolveRunSpec(spec).value(), 0)->model);
  const auto analysis = AnalyzeModelRouting(*model_, dataset_, Options({0, 1}), kIgnoreProgress);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  for (const v1::LayerRoutingAnalysis& layer : analysis->layers()) {
    ASSERT_EQ(layer.active_share_size(), kExperts);
    EXPECT_NEAR(std::accumulate(layer.active_share().begin(), layer.active_share().end(), 0.0), 2,
                1e-9);
  }
}

TEST(LayersToAnalyzeTest, ErrorsNameTheLayersWithExperts) {
  v1::ModelConfig config;
  config.set_num_layers(4);
  config.mutable_routing()->set_num_experts(8);
  config.mutable_routing()->set_router(v1::CAUSAL_SEGMENT);
  config.mutable_routing()->add_moe_layers(1);
  config.mutable_routing()->add_moe_layers(3);
  EXPECT_EQ(*LayersToAnalyze(config, {}), (std::vector<int>{1, 3}));
  EXPECT_EQ(*LayersToAnalyze(config, {3, 1}), (std::vector<int>{1, 3}));
  EXPECT_THAT(std::string(LayersToAnalyze(config, {3, 1, 3}).status().message()),
              HasSubstr("layer 3 is listed twice"));
  EXPECT_THAT(std::string(LayersToAnalyze(config, {2}).status().message()),
              AllOf(HasSubstr("layer 2 has no experts"), HasSubstr("layers with experts: 1, 3")));
  EXPECT_THAT(std::string(LayersToAnalyze(config, {4}).status().message()),
              HasSubstr("layer 4 does not exist (there are 0 to 3)"));
  config.mutable_routing()->set_router(v1::DENSE);
  const absl::Status dense = LayersToAnalyze(config, {}).status();
  EXPECT_EQ(dense.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(dense.message()), HasSubstr("has no experts"));
}

TEST_F(RoutingAnalysisTest, InvalidRequestsReturnErrorsWithTheReason) {
  v1::RunSpec spec = TinySpec(dataset_, 8);
  RunDirectory run(NewDirectory("run"));
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  ASSERT_TRUE(TrainAlone(run, spec).ok());
  v1::AnalyzeRoutingRequest request;
  request.set_num_threads(1);
  const auto message = [&] {
    return std::string(AnalyzeRouting(request, [](const v1::AnalyzeRoutingEvent&) {}).message());
  };
  request.set_model(run.root().string());
  request.add_layers(7);
  EXPECT_THAT(message(), HasSubstr("layer 7 does not exist"));
  request.clear_layers();
  request.set_texts_per_expert(101);
  EXPECT_THAT(message(), HasSubstr("texts_per_expert: got 101, expected 0 (3) to 100"));
  request.clear_texts_per_expert();
  const fs::path elsewhere = NewDirectory("checkpoint") / "copy";
  fs::copy(run.checkpoints() / "step-00000008", elsewhere, fs::copy_options::recursive);
  request.set_model(elsewhere.string());
  EXPECT_THAT(message(), HasSubstr("its data is unknown"));
  const fs::path other = NewDirectory("data");
  WriteTinyDataset(other);
  fs::copy_file(run.spec(), other / "tokenizer.model", fs::copy_options::overwrite_existing);
  SealDataset(other);
  request.set_dataset_dir(other.string());
  EXPECT_THAT(message(), HasSubstr("another tokenizer"));
}

}  // namespace routing_analysis_test
}  // namespace braid
