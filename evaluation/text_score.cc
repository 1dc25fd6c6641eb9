#include "evaluation/text_score.h"

#include <algorithm>

#include "base/status_macros.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

constexpr int64_t kTextScoreTokensPerPass = 4096;

// Accumulates the losses of one domain, window by window.
class DomainScorer {
 public:
  DomainScorer(const DomainText& text, const v1::ModelConfig& config, int64_t first_segment_length)
      : text_(text), config_(config), first_segment_length_(first_segment_length) {
    score_.name = text.name;
  }

  void Add(const Batch& batch, const ForwardResult& result) {
    const int64_t length = config_.sequence_length();
    for (int64_t b = 0; b < batch.batch_size; ++b) {
      score_.windows.emplace_back();
      for (int64_t t = 0; t < batch.lengths[b]; ++t) {
        if (batch.targets[b * length + t] < 0) continue;
        AddToken(t, result.token_loss[b * length + t]);
      }
    }
    score_.routing.resize(result.routing.size(), RoutingTotals(config_.routing().num_experts()));
    for (size_t i = 0; i < result.routing.size(); ++i) {
      AddBatch(result.routing[i].weights, batch.lengths, TokensPerDecision(config_),
               &score_.routing[i]);
    }
  }

  DomainScore Finish() { return std::move(score_); }

 private:
  // Adds the next token of the text, at position t of the current window.
  void AddToken(int64_t t, double loss) {
    const size_t document = score_.documents.size();
    if (document < text_.documents.size() &&
        static_cast<size_t>(text_.documents[document]) == position_) {
      score_.documents.emplace_back();
    }
    for (UnitScore* unit : {&score_.windows.back(), &score_.documents.back()}) {
      unit->all.Add(text_.bytes[position_], loss);
      if (t >= first_segment_length_) {
        unit->after_first_segment.Add(text_.bytes[position_], loss);
      }
    }
    ++position_;
  }

  const DomainText& text_;
  const v1::ModelConfig& config_;
  const int64_t first_segment_length_;
  size_t position_ = 0;  // position of the next token
  DomainScore score_;
};

}  // namespace

void LossSums::Add(int64_t token_bytes, double loss) {
  ++tokens;
  bytes += token_bytes;
  nats += loss;
}

void LossSums::Add(const LossSums& other) {
  tokens += other.tokens;
  bytes += other.bytes;
  nats += other.nats;
}

absl::StatusOr<DomainScore> ScoreDomain(LanguageModel& model, const DomainText& text, int32_t eos,
                                        const ScoreOptions& options, const WindowsScored& scored) {
  RETURN_IF_ERROR(model.SetInputNoise(options.embedding_noise, options.noise_seed));
  const int64_t length = model.config().sequence_length();
  const int64_t per_pass = std::max<int64_t>(kTextScoreTokensPerPass / length, 1);
  const int64_t windows = text.num_windows(length);
  DomainScorer scorer(text, model.config(), options.first_segment_length);
  for (int64_t begin = 0; begin < windows; begin += per_pass) {
    const int64_t count = std::min(per_pass, windows - begin);
    const Batch batch = LoadWindows(text, begin, count, length, eos);
    ASSIGN_OR_RETURN(const ForwardResult result,
                     model.Evaluate(batch.inputs, batch.targets, count, options.mode,
                                    UsesExperts(model.config()), batch.first_visible));
    scorer.Add(batch, result);
    scored(count);
  }
  return scorer.Finish();
}

absl::StatusOr<TextScore> ScoreText(LanguageModel& model, const EvaluationText& text,
                                    const ScoreOptions& options, const WindowsScored& scored) {
  TextScore score;
  for (const DomainText& domain : text.domains) {
    ASSIGN_OR_RETURN(score.emplace_back(),
                     ScoreDomain(model, domain, text.eos_id, options, scored));
  }
  return score;
}

}  // namespace braid
