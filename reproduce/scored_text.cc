#include "reproduce/scored_text.h"

#include <limits>
#include <numbers>

namespace braid {

void AddScoredTexts(const v1::EvaluationResult& evaluations, ScoredTexts* texts) {
  for (const v1::Evaluation& evaluation : evaluations.evaluations()) {
    const v1::DomainEvaluation& total = evaluation.total();
    (*texts)[evaluation.first_segment_length()] = {.tokens = total.num_tokens_after_first_segment(),
                                                   .bytes = total.num_bytes_after_first_segment()};
  }
}

double BitsPerByte(double nats_per_token, const ScoredTexts& texts, int32_t first_positions) {
  const auto found = texts.find(first_positions);
  if (found == texts.end() || found->second.bytes == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const ScoredText& text = found->second;
  return nats_per_token / std::numbers::ln2 * static_cast<double>(text.tokens) /
         static_cast<double>(text.bytes);
}

}  // namespace braid
