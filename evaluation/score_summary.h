// From sums of losses to the figures of an evaluation, and to what sets two apart.
#ifndef BRAID_EVALUATION_SCORE_SUMMARY_H_
#define BRAID_EVALUATION_SCORE_SUMMARY_H_

#include "braid/v1/analysis.pb.h"
#include "evaluation/statistics/bootstrap.h"
#include "evaluation/text_score.h"

namespace braid {

// The domains together, under the name "all".
DomainScore AllDomains(const TextScore& score);

// Figures of every domain and of all: ratios of sums, with intervals by a bootstrap over
// windows, those of "all" over the windows of all domains together. `config` names the
// layers of the routing. Leaves model, step, routing and lengths to the caller.
v1::Evaluation SummarizeScore(const TextScore& score, const v1::ModelConfig& config,
                              const BootstrapOptions& options);

// The sums of every window, to the domains of an evaluation made of `score`.
void AddWindows(const TextScore& score, v1::Evaluation* evaluation);

// How two scores of one text belong together.
struct Pairing {
  // The texts are cut into the same windows, which are then the pairs; else documents are.
  bool same_windows = true;
  // Losses per token can be compared.
  bool same_tokenizer = true;
};

// How much better `score` is than `baseline`: differences and intervals of each domain and
// of all. Requires scores of the same text, with as many units of the chosen kind.
v1::EvaluationComparison CompareScores(const TextScore& baseline, const TextScore& score,
                                       const Pairing& pairing, const BootstrapOptions& options);

}  // namespace braid

#endif  // BRAID_EVALUATION_SCORE_SUMMARY_H_
