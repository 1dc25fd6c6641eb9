#include "evaluation/evaluation_plan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/fixed_weights.h"
#include "evaluation/heldout_answers.h"
#include "evaluation/heldout_windows.h"
#include "evaluation/inference_routings.h"
#include "evaluation/requested_experts.h"
#include "formats/packed_dataset.h"
#include "formats/tokenizer.h"
#include "model/config/head_config.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxBootstrapSamples = 1000000;
constexpr char kTokenizerFile[] = "tokenizer.model";

template <class... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::StatusOr<BootstrapOptions> ResolveBootstrap(const v1::EvaluateRequest& request) {
  BootstrapOptions options;
  options.seed = request.bootstrap_seed();
  if (request.bootstrap_samples() != 0) options.samples = request.bootstrap_samples();
  if (request.confidence() != 0) options.confidence = request.confidence();
  if (options.samples < 1 || options.samples > kMaxBootstrapSamples) {
    return Invalid("bootstrap_samples: got ", options.samples, ", expected 1 to ",
                   kMaxBootstrapSamples);
  }
  if (!(options.confidence > 0 && options.confidence < 1)) {
    return Invalid("confidence: got ", options.confidence, ", expected between 0 and 1");
  }
  return options;
}

class Planner {
 public:
  Planner(const v1::EvaluateRequest& request, const DocumentReader& reader)
      : request_(request), reader_(reader) {}

  absl::StatusOr<EvaluationPlan> Plan() {
    if (request_.models().empty()) return Invalid("models: got none, expected at least one");
    if (request_.max_windows_per_domain() < 0) {
      return Invalid("max_windows_per_domain: got ", request_.max_windows_per_domain(),
                     ", expected 0 (all) or more");
    }
    if (request_.first_positions() < 0) {
      return Invalid("first_positions: got ", request_.first_positions(), ", expected 0 or more");
    }
    if (!std::isfinite(request_.embedding_noise()) || request_.embedding_noise() < 0) {
      return Invalid("embedding_noise: got ", request_.embedding_noise(),
                     ", expected a number of at least 0");
    }
    plan_.embedding_noise = request_.embedding_noise();
    plan_.noise_seed = request_.noise_seed();
    plan_.want_windows = request_.want_windows();
    ASSIGN_OR_RETURN(plan_.bootstrap, ResolveBootstrap(request_));
    ASSIGN_OR_RETURN(routings_, ResolveRoutings(request_.routings(), {v1::SEGMENT_ROUTING}));
    ASSIGN_OR_RETURN(fixed_weights_, ResolveFixedWeights(request_.fixed_weights(), routings_));
    for (const std::string& name : request_.models()) RETURN_IF_ERROR(AddModel(name));
    RETURN_IF_ERROR(CheckExpertsAreChosen(request_.active_experts(), named_));
    RETURN_IF_ERROR(CheckWeightsAreMerged(fixed_weights_, named_));
    RETURN_IF_ERROR(CheckSeedIsUsed());
    RETURN_IF_ERROR(CheckLimit());
    RETURN_IF_ERROR(OpenDataset());
    RETURN_IF_ERROR(SetFirstSegments());
    for (const ModelToScore& model : plan_.models) RETURN_IF_ERROR(CheckDataset(model));
    for (size_t i = 0; i < plan_.cuts.size(); ++i) RETURN_IF_ERROR(CutText(CheckpointOf(i), i));
    RETURN_IF_ERROR(CheckDomains(fixed_weights_, plan_.cuts[0].text));
    return std::move(plan_);
  }

 private:
  absl::Status AddModel(const std::string& name) {
    if (std::ranges::find(named_, name, &NamedModel::name) != named_.end()) {
      return Invalid("models: got ", name, " twice, expected each model once");
    }
    ASSIGN_OR_RETURN(const ModelPath path, FindModel(name, request_.strict()));
    ASSIGN_OR_RETURN(const FileSummary tokenizer, SummarizeFile(path.checkpoint / kTokenizerFile));
    RETURN_IF_ERROR(CheckPredictsTokens(path.state.model, name));
    ModelToScore model{.name = name,
                       .checkpoint = path.checkpoint,
                       .average = path.state.use_average,
                       .source = path.source,
                       .config = path.state.model,
                       .cut = CutFor(tokenizer, path.state.model),
                       .routings = routings_,
                       .active_experts = {},
                       .fixed_weights = fixed_weights_};
    if (!UsesExperts(model.config)) model.routings.resize(1);
    if (!MergesExperts(model.config.routing())) model.fixed_weights.clear();
    RETURN_IF_ERROR(SetActiveExperts(&model));
    if (plan_.models.empty() && request_.paths().empty()) {
      ASSIGN_OR_RETURN(plan_.dataset_dir, DatasetOfFirst(path));
    }
    named_.push_back({model.name, model.config});
    plan_.models.push_back(std::move(model));
    return absl::OkStatus();
  }

  // Tokens choose alike in every routing, so TOKEN_CHOICE is scored with the first one only.
  absl::Status SetActiveExperts(ModelToScore* model) const {
    if (request_.has_routing_seed() &&
        CheckRoutingSeed(model->config, request_.routing_seed()).ok()) {
      model->routing_seed = request_.routing_seed();
    }
    if (model->config.routing().router() != v1::TOKEN_CHOICE) return absl::OkStatus();
    model->routings.resize(1);
    ASSIGN_OR_RETURN(model->active_experts,
                     RequestedExperts(request_.active_experts(), {model->name, model->config},
                                      model->routing_seed.has_value()));
    return absl::OkStatus();
  }

  // A model with another gate can be compared with one of the gate RANDOM, but needs no seed.
  absl::Status CheckSeedIsUsed() const {
    const auto uses = [](const ModelToScore& model) { return model.routing_seed.has_value(); };
    if (!request_.has_routing_seed() || std::ranges::any_of(plan_.models, uses)) {
      return absl::OkStatus();
    }
    return CheckRoutingSeed(plan_.models[0].config, request_.routing_seed());
  }

  absl::StatusOr<fs::path> DatasetOfFirst(const ModelPath& path) const {
    absl::StatusOr<fs::path> dataset_dir = DatasetOf(request_.dataset_dir(), path);
    if (!absl::IsInvalidArgument(dataset_dir.status())) return dataset_dir;
    return Invalid(dataset_dir.status().message(), " or files (paths, --text)");
  }

  size_t CutFor(const FileSummary& tokenizer, const v1::ModelConfig& model) {
    const int64_t window_length = model.sequence_length();
    const bool begin_with_bos = model.start_token() == v1::START_WITH_BOS;
    for (size_t i = 0; i < plan_.cuts.size(); ++i) {
      const TextCut& cut = plan_.cuts[i];
      if (SameTokenizer(cut.tokenizer, tokenizer) && cut.window_length == window_length &&
          cut.begin_with_bos == begin_with_bos) {
        return i;
      }
    }
    plan_.cuts.emplace_back();
    plan_.cuts.back().tokenizer = tokenizer;
    plan_.cuts.back().begin_with_bos = begin_with_bos;
    plan_.cuts.back().window_length = window_length;
    return plan_.cuts.size() - 1;
  }

  // The first N windows of two models would be different text.
  absl::Status CheckLimit() const {
    if (request_.max_windows_per_domain() == 0 || plan_.cuts.size() == 1) return absl::OkStatus();
    const auto other = std::ranges::find(plan_.models, size_t{1}, &ModelToScore::cut);
    return Invalid("max_windows_per_domain: ", plan_.models[0].name, " and ", other->name,
                   " cut text differently (their tokenizers, contexts or start tokens differ), so "
                   "the same number of "
                   "windows is not the same text; score all windows, or one model at a time");
  }

  // Answers count wherever they are in their sequence, so no first segment is left out of them. Nor
  // is a segment that fills the window, which would leave no token.
  absl::Status SetFirstSegments() {
    for (size_t i = 0; i < plan_.cuts.size(); ++i) {
      TextCut& cut = plan_.cuts[i];
      int64_t of_routed = 0, of_others = 0;
      for (const ModelToScore& model : plan_.models) {
        const v1::RoutingConfig& routing = model.config.routing();
        if (model.cut != i || routing.segment_length() >= cut.window_length) continue;
        int64_t& longest = RoutesOnOtherTokens(routing) ? of_routed : of_others;
        longest = std::max<int64_t>(longest, routing.segment_length());
      }
      cut.first_segment_length = request_.first_positions() > 0 ? request_.first_positions()
                                 : of_routed > 0                ? of_routed
                                                                : of_others;
      if (info_.supervised) cut.first_segment_length = 0;
      if (cut.first_segment_length >= cut.window_length) {
        return Invalid("first_positions: got ", request_.first_positions(),
                       ", expected less than the windows' ", cut.window_length, " tokens");
      }
    }
    return absl::OkStatus();
  }

  absl::Status OpenDataset() {
    if (!request_.paths().empty()) {
      if (request_.dataset_dir().empty()) return absl::OkStatus();
      return Invalid("dataset_dir: got ", request_.dataset_dir(),
                     " and paths, expected only one of them");
    }
    ASSIGN_OR_RETURN(info_, ReadDatasetInfo(plan_.dataset_dir));
    if (info_.labeled()) {
      return Invalid("dataset_dir: got ", plan_.dataset_dir.string(),
                     ", whose examples have labels, expected data of tokens");
    }
    RETURN_IF_ERROR(VerifyDataset(plan_.dataset_dir));
    ASSIGN_OR_RETURN(tokenizer_, SummarizeFile(plan_.dataset_dir / kTokenizerFile));
    return absl::OkStatus();
  }

  absl::Status CheckDataset(const ModelToScore& model) const {
    if (plan_.dataset_dir.empty()) return absl::OkStatus();
    if (!SameTokenizer(plan_.cuts[model.cut].tokenizer, tokenizer_)) {
      return absl::FailedPreconditionError(absl::StrCat(
          plan_.dataset_dir.string(), " was made with another tokenizer than ",
          model.checkpoint.string(),
          ", so perplexities would be meaningless; score the text instead (paths, --text)"));
    }
    if (info_.supervised) RETURN_IF_ERROR(CheckFits(model.config, info_, plan_.dataset_dir));
    if (model.config.vocab_size() >= info_.vocab_size) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(plan_.dataset_dir.string(), " has vocab_size ", info_.vocab_size, ", but ",
                     model.checkpoint.string(), " has ", model.config.vocab_size(),
                     "; score the model on data packed for it"));
  }

  const fs::path& CheckpointOf(size_t cut) const {
    return std::ranges::find(plan_.models, cut, &ModelToScore::cut)->checkpoint;
  }

  absl::Status CutText(const fs::path& checkpoint, size_t index) {
    TextCut& cut = plan_.cuts[index];
    ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(checkpoint / kTokenizerFile));
    const int64_t max_tokens = request_.max_windows_per_domain() * cut.window_length;
    const TokenBytes bytes = MeasureTokens(*tokenizer);
    if (info_.supervised) {
      const bool alone = std::ranges::any_of(plan_.models, [&](const ModelToScore& model) {
        return model.cut == index && RoutesOnOtherTokens(model.config.routing());
      });
      ASSIGN_OR_RETURN(cut.text, HeldoutAnswers(plan_.dataset_dir, info_, bytes,
                                                request_.max_windows_per_domain(), alone));
      return absl::OkStatus();
    }
    if (!plan_.dataset_dir.empty()) {
      ASSIGN_OR_RETURN(cut.text, HeldoutText(plan_.dataset_dir, info_, bytes, max_tokens));
      return absl::OkStatus();
    }
    const std::vector<std::string> paths(request_.paths().begin(), request_.paths().end());
    ASSIGN_OR_RETURN(cut.text, TextOfFiles(paths, reader_, *tokenizer, cut.begin_with_bos,
                                           max_tokens, &plan_.read));
    return CheckVocabulary(*tokenizer, index);
  }

  absl::Status CheckVocabulary(const Tokenizer& tokenizer, size_t index) const {
    for (const ModelToScore& model : plan_.models) {
      if (model.cut != index || model.config.vocab_size() >= tokenizer.vocab_size()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(model.checkpoint.string(), ": tokenizer.model has ", tokenizer.vocab_size(),
                       " pieces, but the model's vocab_size is ", model.config.vocab_size()));
    }
    return absl::OkStatus();
  }

  const v1::EvaluateRequest& request_;
  const DocumentReader& reader_;
  std::vector<v1::InferenceRouting> routings_;
  std::vector<v1::FixedWeights> fixed_weights_;
  std::vector<NamedModel> named_;  // as plan_.models
  DatasetInfo info_;               // empty without a dataset
  FileSummary tokenizer_;          // that the dataset was made with
  EvaluationPlan plan_;
};

}  // namespace

int64_t EvaluationPlan::num_windows() const {
  int64_t windows = 0;
  for (const ModelToScore& model : models) {
    const TextCut& cut = cuts[model.cut];
    const size_t scorings =
        model.routings.size() * std::max<size_t>(model.active_experts.size(), 1) +
        model.fixed_weights.size();
    windows += static_cast<int64_t>(scorings) * cut.text.num_windows(cut.window_length);
  }
  return windows;
}

absl::StatusOr<EvaluationPlan> PlanEvaluation(const v1::EvaluateRequest& request,
                                              const DocumentReader& reader) {
  return Planner(request, reader).Plan();
}

}  // namespace braid
