#include "trainer/evaluation/perplexity.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "formats/status_macros.h"
#include "trainer/checkpoint.h"
#include "trainer/data_loader.h"
#include "trainer/evaluation/heldout_split.h"
#include "trainer/model_config.h"
#include "trainer/model_path.h"
#include "trainer/routing_totals.h"
#include "trainer/run_spec.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTokensPerPass = 4096;

// Running totals of one domain, or of all.
struct Score {
  int64_t num_tokens = 0;
  double loss = 0;
  int64_t num_tokens_after = 0;
  double loss_after = 0;
  std::vector<RoutingTotals> routing;  // one for each of MoeLayers
};

void AddLosses(const Batch& batch, const std::vector<float>& token_loss, int64_t first_segment,
               Score* score) {
  const int64_t length = static_cast<int64_t>(batch.inputs.size()) / batch.batch_size;
  for (int64_t b = 0; b < batch.batch_size; ++b) {
    for (int64_t t = 0; t < batch.lengths[b]; ++t) {
      const double loss = token_loss[b * length + t];
      score->num_tokens += 1;
      score->loss += loss;
      if (t < first_segment) continue;
      score->num_tokens_after += 1;
      score->loss_after += loss;
    }
  }
}

void AddPass(const Batch& batch, const ForwardResult& result, const v1::ModelConfig& config,
             Score* score) {
  AddLosses(batch, result.token_loss, config.routing().segment_length(), score);
  score->routing.resize(result.routing.size(), RoutingTotals(config.routing().num_experts()));
  for (size_t i = 0; i < result.routing.size(); ++i) {
    AddBatch(result.routing[i].weights, batch.lengths, TokensPerDecision(config),
             &score->routing[i]);
  }
}

void AddScore(const Score& from, Score* to) {
  to->num_tokens += from.num_tokens;
  to->loss += from.loss;
  to->num_tokens_after += from.num_tokens_after;
  to->loss_after += from.loss_after;
  if (to->routing.empty()) {
    to->routing = from.routing;
    return;
  }
  for (size_t i = 0; i < from.routing.size(); ++i) {
    std::ranges::transform(to->routing[i].sums, from.routing[i].sums, to->routing[i].sums.begin(),
                           std::plus<>());
  }
}

v1::DomainEvaluation ToProto(const std::string& domain, const v1::ModelConfig& config,
                             const Score& score) {
  v1::DomainEvaluation result;
  result.set_domain(domain);
  result.set_num_tokens(score.num_tokens);
  if (score.num_tokens > 0) {
    result.set_loss(score.loss / static_cast<double>(score.num_tokens));
    result.set_perplexity(std::exp(result.loss()));
  }
  result.set_num_tokens_after_first_segment(score.num_tokens_after);
  if (score.num_tokens_after > 0) {
    const double loss = score.loss_after / static_cast<double>(score.num_tokens_after);
    result.set_loss_after_first_segment(loss);
    result.set_perplexity_after_first_segment(std::exp(loss));
  }
  const std::vector<int> layers = MoeLayers(config);
  for (size_t i = 0; i < score.routing.size(); ++i) {
    const std::vector<double> mean = MeanWeights(score.routing[i]);
    v1::LayerWeights* weights = result.add_routing();
    weights->set_layer(layers[i]);
    weights->mutable_weights()->Assign(mean.begin(), mean.end());
  }
  return result;
}

absl::StatusOr<Score> ScoreDomain(LanguageModel& model, const HeldoutDomain& domain,
                                  int64_t per_pass, MergeMode mode,
                                  const std::function<void(int64_t)>& advance) {
  Score score;
  const bool routed = UsesExperts(model.config());
  for (int64_t begin = 0; begin < domain.num_windows; begin += per_pass) {
    std::vector<int64_t> windows(std::min(per_pass, domain.num_windows - begin));
    std::iota(windows.begin(), windows.end(), begin);
    ASSIGN_OR_RETURN(const Batch batch, domain.windows.Load(windows));
    ASSIGN_OR_RETURN(const ForwardResult result,
                     model.Evaluate(batch.inputs, batch.targets, batch.batch_size, mode, routed));
    AddPass(batch, result, model.config(), &score);
    advance(batch.batch_size);
  }
  return score;
}

}  // namespace

absl::StatusOr<v1::Evaluation> EvaluateModel(LanguageModel& model, const fs::path& dataset_dir,
                                             const EvaluationOptions& options,
                                             const EvaluationProgress& progress) {
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  RETURN_IF_ERROR(CheckFits(model.config(), info, dataset_dir));
  ASSIGN_OR_RETURN(const std::vector<HeldoutDomain> domains,
                   OpenDomains(dataset_dir, info, options.max_windows_per_domain));
  int64_t total = 0;
  for (const HeldoutDomain& domain : domains) total += domain.num_windows;
  const int64_t per_pass = std::max<int64_t>(kTokensPerPass / info.sequence_length, 1);
  int64_t done = 0;
  const auto advance = [&](int64_t windows) { progress(done += windows, total); };
  v1::Evaluation evaluation;
  Score all;
  for (const HeldoutDomain& domain : domains) {
    ASSIGN_OR_RETURN(const Score score,
                     ScoreDomain(model, domain, per_pass, options.mode, advance));
    *evaluation.add_domains() = ToProto(domain.name, model.config(), score);
    if (domain.num_windows > 0) AddScore(score, &all);
  }
  *evaluation.mutable_total() = ToProto("all", model.config(), all);
  evaluation.set_routing(options.mode == MergeMode::kPrompt ? v1::PROMPT_ROUTING
                                                            : v1::SEGMENT_ROUTING);
  return evaluation;
}

absl::Status Evaluate(const v1::EvaluateRequest& request,
                      const std::function<void(const v1::EvaluateEvent&)>& emit) {
  SetModelThreads(request.num_threads() > 0
                      ? request.num_threads()
                      : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  ASSIGN_OR_RETURN(const ModelPath path, FindModel(request.models(0), std::cerr));
  ASSIGN_OR_RETURN(const fs::path dataset_dir, DatasetOf(request.dataset_dir(), path));
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(path.checkpoint));
  ASSIGN_OR_RETURN(const auto model, LoadModel(path.checkpoint));
  RETURN_IF_ERROR(ReadDatasetInfo(dataset_dir).status());
  RETURN_IF_ERROR(VerifyDataset(dataset_dir));
  RETURN_IF_ERROR(CheckTokenizer(path.checkpoint, dataset_dir));
  EvaluationOptions options;
  if (request.routings_size() > 0 && request.routings(0) == v1::PROMPT_ROUTING)
    options.mode = MergeMode::kPrompt;
  options.max_windows_per_domain = request.max_windows_per_domain();
  v1::EvaluateEvent event;
  const auto progress = [&](int64_t done, int64_t total) {
    event.set_done(done);
    event.set_total(total);
    emit(event);
  };
  ASSIGN_OR_RETURN(v1::Evaluation evaluation,
                   EvaluateModel(*model, dataset_dir, options, progress));
  evaluation.set_model(request.models(0));
  evaluation.set_step(state.step);
  *event.mutable_result()->add_evaluations() = std::move(evaluation);
  emit(event);
  return absl::OkStatus();
}

}  // namespace braid
