// Noise on weights before they are tuned (NoisyTune, arXiv 2202.12024).
#ifndef BRAID_INFERENCE_WEIGHT_NOISE_H_
#define BRAID_INFERENCE_WEIGHT_NOISE_H_

#include "absl/status/status.h"
#include "braid/v1/conversion.pb.h"
#include "model/language_model.h"

namespace braid {

// Adds uniform noise in (-a, a), where a is half of `noise.share` times the standard deviation of
// the matrix, to every parameter of two or more dimensions. The noise of a matrix is a pure
// function of seed, name and the matrix. InvalidArgument unless the share is a positive number.
absl::Status AddNoise(const v1::WeightNoise& noise, LanguageModel& model);

}  // namespace braid

#endif  // BRAID_INFERENCE_WEIGHT_NOISE_H_
