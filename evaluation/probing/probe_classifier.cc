#include "evaluation/probing/probe_classifier.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/splitmix.h"

namespace braid {
namespace {

constexpr int64_t kBatch = 64;
constexpr int64_t kEpochs = 40, kLeastSteps = 2000;
constexpr double kRate = .005, kDecay1 = .9, kDecay2 = .999, kEpsilon = 1e-8;

// Adds x [rows, depth] w [depth, columns] to out [rows, columns]. Rows are taken by four, so that
// each row of w is read once for four of them.
void AddProduct(const float* x, const float* w, float* out, int64_t rows, int64_t depth,
                int64_t columns) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float *x0 = x + i * depth, *x1 = x0 + depth, *x2 = x1 + depth, *x3 = x2 + depth;
    float* __restrict o0 = out + i * columns;
    float* __restrict o1 = o0 + columns;
    float* __restrict o2 = o1 + columns;
    float* __restrict o3 = o2 + columns;
    for (int64_t d = 0; d < depth; ++d) {
      const float a0 = x0[d], a1 = x1[d], a2 = x2[d], a3 = x3[d];
      const float* __restrict from = w + d * columns;
      for (int64_t c = 0; c < columns; ++c) {
        const float v = from[c];
        o0[c] += a0 * v;
        o1[c] += a1 * v;
        o2[c] += a2 * v;
        o3[c] += a3 * v;
      }
    }
  }
  for (; i < rows; ++i) {
    for (int64_t d = 0; d < depth; ++d) {
      const float a = x[i * depth + d];
      for (int64_t c = 0; c < columns; ++c) out[i * columns + c] += a * w[d * columns + c];
    }
  }
}

// Adds x^T [depth, rows] g [rows, columns] to out [depth, columns].
void AddTransposedProduct(const float* x, const float* g, float* out, int64_t rows, int64_t depth,
                          int64_t columns) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float *x0 = x + i * depth, *x1 = x0 + depth, *x2 = x1 + depth, *x3 = x2 + depth;
    const float *g0 = g + i * columns, *g1 = g0 + columns, *g2 = g1 + columns, *g3 = g2 + columns;
    for (int64_t d = 0; d < depth; ++d) {
      const float a0 = x0[d], a1 = x1[d], a2 = x2[d], a3 = x3[d];
      float* __restrict to = out + d * columns;
      for (int64_t c = 0; c < columns; ++c) {
        to[c] += a0 * g0[c] + a1 * g1[c] + a2 * g2[c] + a3 * g3[c];
      }
    }
  }
  for (; i < rows; ++i) {
    for (int64_t d = 0; d < depth; ++d) {
      const float a = x[i * depth + d];
      for (int64_t c = 0; c < columns; ++c) out[d * columns + c] += a * g[i * columns + c];
    }
  }
}

// Subtracts the mean and divides by the deviation of each feature.
class Standardizer {
 public:
  Standardizer(std::span<const float> x, int64_t width) : mean_(width), scale_(width) {
    const auto n = static_cast<double>(std::ssize(x) / width);
    std::vector<double> sum(width), squares(width);
    for (size_t i = 0; i < x.size(); ++i) sum[i % width] += x[i];
    for (int64_t d = 0; d < width; ++d) mean_[d] = static_cast<float>(sum[d] / n);
    for (size_t i = 0; i < x.size(); ++i) {
      const double off = x[i] - mean_[i % width];
      squares[i % width] += off * off;
    }
    for (int64_t d = 0; d < width; ++d) {
      const double deviation = std::sqrt(squares[d] / n);
      // Rounding alone makes the deviation of a constant positive.
      const bool varies = deviation > 1e-6 * std::abs(mean_[d]);
      scale_[d] = varies ? static_cast<float>(1 / deviation) : 0;
    }
  }

  std::vector<float> Apply(std::span<const float> x) const {
    std::vector<float> out(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t d = i % mean_.size();
      out[i] = (x[i] - mean_[d]) * scale_[d];
    }
    return out;
  }

 private:
  std::vector<float> mean_, scale_;
};

// One layer x W + b: weights [inputs, outputs] followed by biases [outputs], with Adam's moments.
class AffineLayer {
 public:
  AffineLayer(int64_t inputs, int64_t outputs, uint64_t seed)
      : inputs_(inputs),
        outputs_(outputs),
        values_((inputs + 1) * outputs),
        gradients_(values_.size()),
        m_(values_.size()),
        v_(values_.size()) {
    if (seed == 0) return;
    uint64_t state = seed;
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    for (int64_t i = 0; i < inputs * outputs; ++i) {
      values_[i] = static_cast<float>(bound * (2 * UnitInterval(NextSplitMix64(&state)) - 1));
    }
  }

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }

  std::vector<float> Forward(std::span<const float> x) const {
    const int64_t rows = std::ssize(x) / inputs_;
    std::vector<float> out(rows * outputs_);
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(values_.end() - outputs_, outputs_, out.begin() + i * outputs_);
    }
    AddProduct(x.data(), values_.data(), out.data(), rows, inputs_, outputs_);
    return out;
  }

  // Sets the gradients from those of the outputs, and returns those of the inputs if wanted.
  std::vector<float> Backward(std::span<const float> x, std::span<const float> g,
                              bool want_inputs) {
    const int64_t rows = std::ssize(x) / inputs_;
    std::ranges::fill(gradients_, 0.0F);
    AddTransposedProduct(x.data(), g.data(), gradients_.data(), rows, inputs_, outputs_);
    for (size_t i = 0; i < g.size(); ++i) gradients_[inputs_ * outputs_ + i % outputs_] += g[i];
    std::vector<float> dx(want_inputs ? x.size() : 0);
    for (size_t i = 0; i < dx.size(); ++i) {
      const float* row = &g[i / inputs_ * outputs_];
      const float* weights = &values_[i % inputs_ * outputs_];
      for (int64_t c = 0; c < outputs_; ++c) dx[i] += row[c] * weights[c];
    }
    return dx;
  }

  // Takes step `t`, from 1, of Adam with a penalty on the weights.
  void Step(int64_t t, double rate, double penalty) {
    const auto correction1 = static_cast<float>(1 / (1 - std::pow(kDecay1, t)));
    const auto correction2 = static_cast<float>(1 / (1 - std::pow(kDecay2, t)));
    const int64_t weights = inputs_ * outputs_;
    for (int64_t i = 0; i < std::ssize(values_); ++i) {
      const float g = gradients_[i] + (i < weights ? static_cast<float>(penalty) * values_[i] : 0);
      m_[i] += static_cast<float>(1 - kDecay1) * (g - m_[i]);
      v_[i] += static_cast<float>(1 - kDecay2) * (g * g - v_[i]);
      values_[i] -= static_cast<float>(rate) * m_[i] * correction1 /
                    (std::sqrt(v_[i] * correction2) + static_cast<float>(kEpsilon));
    }
  }

 private:
  const int64_t inputs_, outputs_;
  std::vector<float> values_, gradients_, m_, v_;
};

// Replaces logits [rows, classes] by the gradient of their mean cross-entropy.
void LossGradient(std::span<const int32_t> labels, int64_t classes, std::vector<float>* logits) {
  const auto rows = static_cast<int64_t>(labels.size());
  for (int64_t i = 0; i < rows; ++i) {
    const std::span<float> row = std::span(*logits).subspan(i * classes, classes);
    const float highest = *std::ranges::max_element(row);
    float sum = 0;
    for (float& value : row) sum += value = std::exp(value - highest);
    for (float& value : row) value /= sum * static_cast<float>(rows);
    row[labels[i]] -= 1 / static_cast<float>(rows);
  }
}

class Classifier {
 public:
  explicit Classifier(const ProbeClassifierOptions& options) : classes_(options.num_classes) {
    if (options.hidden_units == 0) {
      layers_.emplace_back(options.width, classes_, 0);
    } else {
      layers_.emplace_back(options.width, options.hidden_units, Mix64(options.seed, 1));
      layers_.emplace_back(options.hidden_units, classes_, Mix64(options.seed, 2));
    }
  }

  void Train(std::span<const float> x, std::span<const int32_t> labels, int64_t step, double rate,
             double penalty) {
    std::vector<float> hidden;
    std::vector<float> g = Logits(x, &hidden);
    LossGradient(labels, classes_, &g);
    if (layers_.size() > 1) {
      std::vector<float> dh = layers_[1].Backward(hidden, g, /*want_inputs=*/true);
      for (size_t i = 0; i < dh.size(); ++i) dh[i] *= hidden[i] * (1 - hidden[i]);
      g = std::move(dh);
    }
    layers_[0].Backward(x, g, /*want_inputs=*/false);
    for (AffineLayer& layer : layers_) layer.Step(step, rate, penalty);
  }

  std::vector<int32_t> Predict(std::span<const float> x) const {
    std::vector<float> hidden;
    const std::vector<float> logits = Logits(x, &hidden);
    std::vector<int32_t> labels;
    for (size_t i = 0; i < logits.size(); i += classes_) {
      const auto row = logits.begin() + static_cast<int64_t>(i);
      labels.push_back(static_cast<int32_t>(std::max_element(row, row + classes_) - row));
    }
    return labels;
  }

 private:
  // Returns the logits, and sets the activations of the hidden units if there are any.
  std::vector<float> Logits(std::span<const float> x, std::vector<float>* hidden) const {
    std::vector<float> out = layers_[0].Forward(x);
    if (layers_.size() == 1) return out;
    for (float& value : out) value = 1 / (1 + std::exp(-value));
    *hidden = std::move(out);
    return layers_[1].Forward(*hidden);
  }

  const int64_t classes_;
  std::vector<AffineLayer> layers_;
};

// Shuffles `order`.
void Shuffle(uint64_t seed, std::vector<int64_t>* order) {
  uint64_t state = seed;
  for (size_t i = order->size(); i > 1; --i) {
    std::swap((*order)[i - 1], (*order)[NextSplitMix64(&state) % i]);
  }
}

}  // namespace

std::vector<int32_t> PredictLabels(const LabeledVectors& training, std::span<const float> test,
                                   const ProbeClassifierOptions& options) {
  const int64_t n = std::ssize(training.labels), width = options.width;
  BRAID_CHECK(n > 0 && width > 0 && std::ssize(training.vectors) == n * width &&
              std::ssize(test) % width == 0)
      << n << " " << width << " " << training.vectors.size() << " " << test.size();
  const Standardizer standardizer(training.vectors, width);
  const std::vector<float> x = standardizer.Apply(training.vectors);
  Classifier classifier(options);
  const int64_t batch = std::min(kBatch, n), of_epoch = n / batch;
  const int64_t steps = std::max(kEpochs * of_epoch, kLeastSteps);
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> rows(batch * width);
  std::vector<int32_t> labels(batch);
  for (int64_t step = 0; step < steps; ++step) {
    if (step % of_epoch == 0) Shuffle(Mix64(options.seed, 3 + step), &order);
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t row = order[step % of_epoch * batch + i];
      std::copy_n(x.begin() + row * width, width, rows.begin() + i * width);
      labels[i] = training.labels[row];
    }
    const double rate = kRate * (1 - static_cast<double>(step) / static_cast<double>(steps));
    classifier.Train(rows, labels, step + 1, rate, 1 / static_cast<double>(n));
  }
  return classifier.Predict(standardizer.Apply(test));
}

}  // namespace braid
