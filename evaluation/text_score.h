// The score of a text under a model: sums of losses per window and per document.
#ifndef BRAID_EVALUATION_TEXT_SCORE_H_
#define BRAID_EVALUATION_TEXT_SCORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/evaluation_text.h"
#include "model/language_model.h"
#include "trainer/routing_totals.h"

namespace braid {

// Sums over some tokens; additive.
struct LossSums {
  int64_t tokens = 0;
  int64_t bytes = 0;
  double nats = 0;

  void Add(int64_t token_bytes, double loss);
  void Add(const LossSums& other);
};

// The sums of one window or document: over all its tokens, and over those outside the first segment
// of their window.
struct UnitScore {
  LossSums all;
  LossSums after_first_segment;
};

struct DomainScore {
  std::string name;
  std::vector<UnitScore> windows;
  // `windows` and `documents` cover the same tokens. The tokens of a document may lie in several
  // windows.
  std::vector<UnitScore> documents;
  // One entry per layer of MoeLayers, over segments with text; empty without experts.
  std::vector<RoutingTotals> routing;
};

using TextScore = std::vector<DomainScore>;

struct ScoreOptions {
  MergeMode mode = MergeMode::kSegment;
  // Number of leading tokens of each window that do not count as after the first segment. A model
  // that routes its first segment on itself sees the tokens there that it predicts.
  int64_t first_segment_length = 0;
  // As in LanguageModel::SetInputNoise.
  double embedding_noise = 0;
  uint64_t noise_seed = 0;
};

// Receives the number of windows scored since the last call.
using WindowsScored = std::function<void(int64_t windows)>;

// Scores all windows of a domain, of the model's sequence_length, and leaves the noise of `options`
// set. Requires tokens of the model's vocabulary.
absl::StatusOr<DomainScore> ScoreDomain(LanguageModel& model, const DomainText& text, int32_t eos,
                                        const ScoreOptions& options, const WindowsScored& scored);
absl::StatusOr<TextScore> ScoreText(LanguageModel& model, const EvaluationText& text,
                                    const ScoreOptions& options, const WindowsScored& scored);

}  // namespace braid

#endif  // BRAID_EVALUATION_TEXT_SCORE_H_
