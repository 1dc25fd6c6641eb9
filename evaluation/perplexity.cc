#include "evaluation/perplexity.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "evaluation/evaluation_plan.h"
#include "evaluation/fixed_weights.h"
#include "evaluation/heldout_windows.h"
#include "evaluation/score_summary.h"
#include "evaluation/text_score.h"
#include "model/config/inference_experts.h"
#include "runs/main_figures.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

using Emit = std::function<void(const v1::EvaluateEvent&)>;

// Scores the models of a plan one after the other, and compares each with the first one.
class Evaluator {
 public:
  Evaluator(const EvaluationPlan& plan, const Emit& emit) : plan_(plan), emit_(emit) {
    event_.set_total(plan.num_windows());
  }

  absl::Status Run() {
    Describe();
    emit_(event_);
    for (const ModelToScore& model : plan_.models) RETURN_IF_ERROR(ScoreModel(model));
    *event_.mutable_result() = std::move(result_);
    emit_(event_);
    return absl::OkStatus();
  }

 private:
  void Describe() {
    result_.set_dataset_dir(plan_.dataset_dir.string());
    result_.set_num_documents(plan_.read.num_documents);
    result_.set_num_rejected(plan_.read.num_rejected);
    for (const std::string& reject : plan_.read.rejected) result_.add_rejected(reject);
    result_.set_confidence(plan_.bootstrap.confidence);
  }

  absl::Status ScoreModel(const ModelToScore& to_score) {
    ASSIGN_OR_RETURN(const auto model, LoadModel(to_score.checkpoint, to_score.average));
    const bool seeded = to_score.routing_seed.has_value();
    if (seeded) RETURN_IF_ERROR(model->SetRoutingSeed(*to_score.routing_seed));
    const TextCut& cut = plan_.cuts[to_score.cut];
    const WindowsScored scored = [this](int64_t windows) {
      event_.set_done(event_.done() + windows);
      emit_(event_);
    };
    ScoreOptions options = {.first_segment_length = cut.first_segment_length,
                            .embedding_noise = plan_.embedding_noise,
                            .noise_seed = plan_.noise_seed};
    TextScore routed;
    std::vector<int> numbers = to_score.active_experts;
    if (numbers.empty()) numbers = {InferenceExperts(model->config(), seeded)};
    for (const int active : numbers) {
      if (!to_score.active_experts.empty()) RETURN_IF_ERROR(model->SetActiveExperts(active));
      for (const v1::InferenceRouting routing : to_score.routings) {
        options.mode = routing == v1::PROMPT_ROUTING ? MergeMode::kPrompt : MergeMode::kSegment;
        ASSIGN_OR_RETURN(TextScore score, ScoreText(*model, cut.text, options, scored));
        if (routing == v1::SEGMENT_ROUTING) routed = score;
        v1::Evaluation* evaluation = AddEvaluation(to_score, std::move(score));
        evaluation->set_routing(routing);
        evaluation->set_routes_on_itself(RoutesOnItself(to_score.config));
        evaluation->set_active_experts(active);
      }
    }
    for (const v1::FixedWeights weights : to_score.fixed_weights) {
      ASSIGN_OR_RETURN(TextScore score,
                       ScoreWithFixedWeights(*model, cut.text, weights, routed, options, scored));
      AddEvaluation(to_score, std::move(score))->set_fixed_weights(weights);
    }
    return absl::OkStatus();
  }

  v1::Evaluation* AddEvaluation(const ModelToScore& to_score, TextScore score) {
    const TextCut& cut = plan_.cuts[to_score.cut];
    v1::Evaluation* evaluation = result_.add_evaluations();
    *evaluation = SummarizeScore(score, to_score.config, plan_.bootstrap);
    if (plan_.want_windows) AddWindows(score, evaluation);
    evaluation->set_model(to_score.name);
    evaluation->set_step(to_score.source.step());
    *evaluation->mutable_source() = to_score.source;
    evaluation->set_first_segment_length(static_cast<int32_t>(cut.first_segment_length));
    evaluation->set_window_length(static_cast<int32_t>(cut.window_length));
    evaluation->set_varying_experts(HasVaryingExperts(to_score.config));
    CompareWithBaseline(to_score, std::move(score));
    return evaluation;
  }

  void CompareWithBaseline(const ModelToScore& model, TextScore score) {
    if (!baseline_) {
      baseline_ = std::move(score);
      return;
    }
    const ModelToScore& first = plan_.models[0];
    const FileSummary& a = plan_.cuts[first.cut].tokenizer;
    const FileSummary& b = plan_.cuts[model.cut].tokenizer;
    const Pairing pairing = {.same_windows = first.cut == model.cut,
                             .same_tokenizer = SameTokenizer(a, b)};
    v1::EvaluationComparison* comparison = result_.add_comparisons();
    *comparison = CompareScores(*baseline_, score, pairing, plan_.bootstrap);
    comparison->set_evaluation(result_.evaluations_size() - 1);
  }

  const EvaluationPlan& plan_;
  const Emit& emit_;
  v1::EvaluateEvent event_;
  v1::EvaluationResult result_;
  std::optional<TextScore> baseline_;
};

}  // namespace

absl::Status Evaluate(const v1::EvaluateRequest& request, const DocumentReader& reader,
                      const Emit& emit) {
  SetModelThreads(request.num_threads());
  ASSIGN_OR_RETURN(const EvaluationPlan plan, PlanEvaluation(request, reader));
  return Evaluator(plan, emit).Run();
}

}  // namespace braid
