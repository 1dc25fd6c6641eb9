// What a model gives a text: sums of losses of every window and every document.
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

// Sums over some tokens. Adds up.
struct LossSums {
  int64_t tokens = 0;
  int64_t bytes = 0;
  double nats = 0;

  void Add(int64_t token_bytes, double loss);
  void Add(const LossSums& other);
};

// Of one window or one document: over all its tokens, and over those that are not in the
// first segment of their window.
struct UnitScore {
  LossSums all;
  LossSums after_first_segment;
};

struct DomainScore {
  std::string name;
  std::vector<UnitScore> windows;
  // Both are the same tokens. A document's tokens may lie in several windows.
  std::vector<UnitScore> documents;
  // One for each of MoeLayers; empty without experts. Over segments that hold text.
  std::vector<RoutingTotals> routing;
};

using TextScore = std::vector<DomainScore>;

struct ScoreOptions {
  MergeMode mode = MergeMode::kSegment;
  // Tokens predicted at the front of each window that do not count as after the first
  // segment. There a model that routes its first segment on itself sees the tokens that
  // it predicts.
  int64_t first_segment_length = 0;
};

// Windows scored since the last call.
using WindowsScored = std::function<void(int64_t windows)>;

// Scores all windows of the model's sequence_length. Requires tokens of the model's
// vocabulary.
absl::StatusOr<DomainScore> ScoreDomain(LanguageModel& model, const DomainText& text, int32_t eos,
                                        const ScoreOptions& options, const WindowsScored& scored);
absl::StatusOr<TextScore> ScoreText(LanguageModel& model, const EvaluationText& text,
                                    const ScoreOptions& options, const WindowsScored& scored);

}  // namespace braid

#endif  // BRAID_EVALUATION_TEXT_SCORE_H_
