// Seeded initial values of a parameter.
#ifndef BRAID_MODEL_CONFIG_INITIAL_WEIGHTS_H_
#define BRAID_MODEL_CONFIG_INITIAL_WEIGHTS_H_

#include <cstdint>
#include <span>

#include "model/config/parameter_layout.h"

namespace braid {

// Fills `values` (spec.size elements) with a constant, or with normally or uniformly distributed
// values. Element i is a pure function of (seed, spec.name, i) and the standard deviation, so
// models that differ in routing agree on the parameters that both have.
void FillInitialValues(const ParameterSpec& spec, uint64_t seed, std::span<float> values);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_INITIAL_WEIGHTS_H_
