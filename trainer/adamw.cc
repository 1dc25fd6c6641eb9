#include "trainer/adamw.h"

#include <cmath>

#include "formats/check.h"

namespace braid {
namespace {

// Below this a thread team costs more than it saves.
constexpr int64_t kParallelSize = 1 << 15;

}  // namespace

void AdamwStep(const AdamwSettings& settings, double learning_rate, int64_t step,
               double gradient_factor, const AdamwParameter& parameter) {
  const int64_t n = static_cast<int64_t>(parameter.value.size());
  BRAID_CHECK(parameter.gradient.size() == parameter.value.size() &&
              parameter.m.size() == parameter.value.size() &&
              parameter.v.size() == parameter.value.size() && step >= 1)
      << n << " " << parameter.gradient.size() << " " << step;
  const double t = static_cast<double>(step);
  const double correction1 = 1.0 - std::pow(settings.beta1, t);
  const double correction2 = 1.0 - std::pow(settings.beta2, t);
  const float factor = static_cast<float>(gradient_factor);
  const float beta1 = static_cast<float>(settings.beta1);
  const float beta2 = static_cast<float>(settings.beta2);
  const float rest1 = static_cast<float>(1.0 - settings.beta1);
  const float rest2 = static_cast<float>(1.0 - settings.beta2);
  const float rate = static_cast<float>(learning_rate / correction1);
  const float root2 = static_cast<float>(1.0 / std::sqrt(correction2));
  const float epsilon = static_cast<float>(settings.epsilon);
  const float keep =
      parameter.decay ? static_cast<float>(1.0 - learning_rate * settings.weight_decay) : 1.0f;
  float* __restrict value = parameter.value.data();
  const float* __restrict gradient = parameter.gradient.data();
  float* __restrict m = parameter.m.data();
  float* __restrict v = parameter.v.data();
#pragma omp parallel for simd schedule(static) if (n >= kParallelSize)
  for (int64_t i = 0; i < n; ++i) {
    const float g = factor * gradient[i];
    m[i] = beta1 * m[i] + rest1 * g;
    v[i] = beta2 * v[i] + rest2 * g * g;
    value[i] = keep * value[i] - rate * m[i] / (std::sqrt(v[i]) * root2 + epsilon);
  }
}

}  // namespace braid
