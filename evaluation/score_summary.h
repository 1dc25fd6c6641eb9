// Computes the figures of an evaluation from sums of losses, and the differences of two
// evaluations.
#ifndef BRAID_EVALUATION_SCORE_SUMMARY_H_
#define BRAID_EVALUATION_SCORE_SUMMARY_H_

#include "braid/v1/evaluation.pb.h"
#include "evaluation/statistics/bootstrap.h"
#include "evaluation/text_score.h"

namespace braid {

// Returns the union of all domains, named "all".
DomainScore AllDomains(const TextScore& score);

// Returns the figures of every domain and of "all": ratios of sums, with intervals by a bootstrap
// over windows (for "all", over the windows of all domains together). `config` names the layers of
// the routing. The caller fills in model, step, routing and lengths.
v1::Evaluation SummarizeScore(const TextScore& score, const v1::ModelConfig& config,
                              const BootstrapOptions& options);

// Adds the sums of every window to the domains of an evaluation made from `score`.
void AddWindows(const TextScore& score, v1::Evaluation* evaluation);

// Which units of two scores of one text form pairs.
struct Pairing {
  // True if both models score the same windows, which are then the pairs; otherwise documents are
  // the pairs.
  bool same_windows = true;
  // True if losses per token can be compared.
  bool same_tokenizer = true;
};

// Returns how much better `score` is than `baseline`: differences with intervals, for each domain
// and for "all". Requires scores of the same text, with equal numbers of units of the selected
// kind.
v1::EvaluationComparison CompareScores(const TextScore& baseline, const TextScore& score,
                                       const Pairing& pairing, const BootstrapOptions& options);

}  // namespace braid

#endif  // BRAID_EVALUATION_SCORE_SUMMARY_H_
