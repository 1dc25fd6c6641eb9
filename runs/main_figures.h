// The main figures of runs and evaluations: those without first segments, which route on tokens
// that they predict (docs/report.md).
#ifndef BRAID_RUNS_MAIN_FIGURES_H_
#define BRAID_RUNS_MAIN_FIGURES_H_

#include "braid/v1/evaluation.pb.h"
#include "braid/v1/model.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Returns whether every sequence is a single segment whose router sees that segment's own tokens.
// Each position then depends on later tokens, so the losses of such a model are too low.
bool RoutesOnItself(const v1::ModelConfig& resolved);

// Return the figure after first segments; NaN if no token, or no byte of text, remains.
double MainLoss(const v1::DomainEvaluation& domain);
double MainPerplexity(const v1::DomainEvaluation& domain);
double MainBitsPerByte(const v1::DomainEvaluation& domain);

// Return the loss after first segments, or over all tokens where sequences have a single segment or
// answers are scored. Validations are compared by it.
double MainLoss(const v1::StepMetrics& step);
double MainLoss(const v1::ValidationMetrics& validation);
double MainLoss(const v1::ValidationDomain& domain);

}  // namespace braid

#endif  // BRAID_RUNS_MAIN_FIGURES_H_
