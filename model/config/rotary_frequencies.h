// Angular frequencies of rotary position embedding (arXiv 2104.09864) and their scaling to longer
// sequences.
#ifndef BRAID_MODEL_CONFIG_ROTARY_FREQUENCIES_H_
#define BRAID_MODEL_CONFIG_ROTARY_FREQUENCIES_H_

#include <cstdint>
#include <vector>

#include "braid/v1/model.pb.h"

namespace braid {

// Returns the frequencies [head_width / 2] in radians per position: theta^(-2j / head_width) for
// pair j, changed as `scaling` says. LLAMA3_ROPE is that of the LLaMA 3.1 release (apply_scaling in
// meta-llama/llama-models): with r = original_length / wavelength, the factor of a frequency is 1
// for r above high_frequency_factor, 1 / factor for r below low_frequency_factor, and linear in r
// between them.
std::vector<double> RotaryFrequencies(int64_t head_width, double theta,
                                      const v1::RopeScaling& scaling);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_ROTARY_FREQUENCIES_H_
