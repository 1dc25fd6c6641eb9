#include "runs/main_figures.h"

#include <cstdint>
#include <limits>

#include "model/config/model_config.h"

namespace braid {
namespace {

double IfAny(int64_t count, double figure) {
  return count > 0 ? figure : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

bool RoutesOnItself(const v1::ModelConfig& resolved) {
  const v1::RoutingConfig& routing = resolved.routing();
  const bool by_segment = MergesExperts(routing) || routing.router() == v1::EXPERT_CHOICE_SEGMENT;
  return by_segment && routing.first_segment() != v1::UNIFORM &&
         routing.segment_length() >= resolved.sequence_length();
}

double MainLoss(const v1::DomainEvaluation& domain) {
  return IfAny(domain.num_tokens_after_first_segment(), domain.loss_after_first_segment());
}

double MainPerplexity(const v1::DomainEvaluation& domain) {
  return IfAny(domain.num_tokens_after_first_segment(), domain.perplexity_after_first_segment());
}

double MainBitsPerByte(const v1::DomainEvaluation& domain) {
  return IfAny(domain.num_bytes_after_first_segment(), domain.bits_per_byte_after_first_segment());
}

// The loss of no token is stored as 0.
double MainLoss(const v1::StepMetrics& step) {
  return step.loss_after_first_segment() != 0 ? step.loss_after_first_segment() : step.loss();
}

double MainLoss(const v1::ValidationMetrics& validation) {
  return validation.loss_after_first_segment() != 0 ? validation.loss_after_first_segment()
                                                    : validation.loss();
}

double MainLoss(const v1::ValidationDomain& domain) {
  return domain.loss_after_first_segment() != 0 ? domain.loss_after_first_segment() : domain.loss();
}

}  // namespace braid
