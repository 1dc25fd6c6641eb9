// Compares every instruction set of this CPU with the definitions, for sizes that are and are not
// multiples of a vector.
#include "model/kernels/vector_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace braid {
namespace vector_kernels_test {

std::vector<const VectorKernels*> Levels() {
  size_t count = 0;
  const VectorKernels* const* all = AllVectorKernels(&count);
  return {all, all + count};
}

class VectorKernelsTest : public testing::TestWithParam<const VectorKernels*> {
 protected:
  std::vector<float> Random(size_t size) {
    std::normal_distribution<float> normal;
    std::vector<float> values(size);
    for (float& value : values) value = normal(random_);
    return values;
  }
  const VectorKernels& kernels() const { return *GetParam(); }

  std::mt19937 random_{7};
};

TEST_P(VectorKernelsTest, MergeAndScatterEqualTheirSums) {
  for (size_t segments : {1, 4, 7, 16, 21}) {
    for (size_t size : {1, 16, 100, 1500}) {
      const size_t e = 5, stride = size + 3;
      const std::vector<float> experts = Random(e * stride), routing = Random(segments * e);
      std::vector<float> merged(segments * size), routing_gradients(segments * e, 1.0f);
      std::vector<float> gradients = Random(e * stride);
      const std::vector<float> before = gradients;
      kernels().merge({experts.data(), stride, e}, routing.data(), {merged.data(), size, segments},
                      size);
      std::vector<float> upstream = Random(segments * size);
      kernels().scatter({experts.data(), stride, e}, routing.data(),
                        {upstream.data(), size, segments}, gradients.data(),
                        routing_gradients.data(), size);
      for (size_t n = 0; n < segments; ++n) {
        for (size_t i = 0; i < e; ++i) {
          double dot = 1;
          for (size_t j = 0; j < size; ++j) dot += upstream[n * size + j] * experts[i * stride + j];
          EXPECT_NEAR(routing_gradients[n * e + i], dot, 1e-3) << segments << " " << size;
        }
      }
      for (size_t j = 0; j < size; ++j) {
        for (size_t n = 0; n < segments; ++n) {
          double sum = 0;
          for (size_t i = 0; i < e; ++i) sum += routing[n * e + i] * experts[i * stride + j];
          ASSERT_NEAR(merged[n * size + j], sum, 1e-4) << segments << " " << size;
        }
        for (size_t i = 0; i < e; ++i) {
          double sum = before[i * stride + j];
          for (size_t n = 0; n < segments; ++n) sum += routing[n * e + i] * upstream[n * size + j];
          ASSERT_NEAR(gradients[i * stride + j], sum, 1e-4) << segments << " " << size;
        }
      }
    }
  }
}

TEST_P(VectorKernelsTest, TransposeMovesEveryElement) {
  for (size_t rows : {1, 16, 37}) {
    for (size_t columns : {1, 32, 45}) {
      const std::vector<float> in = Random(rows * (columns + 2));
      std::vector<float> out(columns * (rows + 1));
      kernels().transpose(in.data(), columns + 2, rows, columns, out.data(), rows + 1);
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < columns; ++c) {
          ASSERT_EQ(out[c * (rows + 1) + r], in[r * (columns + 2) + c]);
        }
      }
    }
  }
}

TEST_P(VectorKernelsTest, SwiGluAndItsGradients) {
  const size_t size = 77;
  std::vector<float> gate = Random(size);
  const std::vector<float> up = Random(size), upstream = Random(size);
  // exp(-gate) overflows or underflows.
  gate[3] = -89, gate[20] = -100, gate[size - 1] = -1000, gate[0] = 100, gate[21] = 1000;
  std::vector<float> out(size), activation = upstream, dgate(size), dup(size);
  kernels().swiglu(gate.data(), up.data(), out.data(), size);
  kernels().swiglu_backward(gate.data(), up.data(), activation.data(), dgate.data(), dup.data(),
                            size);
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  for (size_t i = 0; i < size; ++i) {
    const double slope = (silu(gate[i] + 1e-4) - silu(gate[i] - 1e-4)) / 2e-4;
    const double scale = std::max(1.0f, std::abs(gate[i]));
    EXPECT_NEAR(out[i], silu(gate[i]) * up[i], 1e-5 * scale);
    EXPECT_NEAR(activation[i], silu(gate[i]) * up[i], 1e-5 * scale);
    EXPECT_NEAR(dup[i], upstream[i] * silu(gate[i]), 1e-5 * scale);
    EXPECT_NEAR(dgate[i], upstream[i] * up[i] * slope, 1e-4);
  }
}

TEST_P(VectorKernelsTest, SwiGluOfRowsAndItsGradients) {
  for (size_t units : {1, 16, 37}) {
    const size_t rows = 3;
    std::vector<float> gate_up = Random(rows * 2 * units);
    gate_up[(rows - 1) * 2 * units] = -1000;
    const std::vector<float> upstream = Random(units);
    std::vector<float> out(rows * units), dgate_up(2 * units), activation = upstream;
    kernels().swiglu_rows(gate_up.data(), rows, units, out.data());
    const float* const last = &gate_up[(rows - 1) * 2 * units];
    const float share =
        kernels().swiglu_row_backward(last, 0.7f, units, activation.data(), dgate_up.data());
    double dot = 0;
    for (size_t i = 0; i < units; ++i) {
      const double g = last[i], up = last[units + i], sigmoid = 1 / (1 + std::exp(-g));
      const double slope = sigmoid + g * sigmoid * (1 - sigmoid);
      EXPECT_NEAR(out[(rows - 1) * units + i], g * sigmoid * up, 1e-5);
      EXPECT_NEAR(activation[i], 0.7 * g * sigmoid * up, 1e-5);
      EXPECT_NEAR(dgate_up[i], 0.7 * upstream[i] * up * slope, 1e-5);
      EXPECT_NEAR(dgate_up[units + i], 0.7 * upstream[i] * g * sigmoid, 1e-5);
      dot += upstream[i] * g * sigmoid * up;
    }
    EXPECT_NEAR(share, dot, 1e-4);
  }
}

TEST_P(VectorKernelsTest, SumsOfRowsAndBlocks) {
  for (size_t size : {1, 64, 150}) {
    const size_t count = 5;
    const std::vector<float> rows = Random(count * size), weights = Random(count);
    std::vector<const float*> pointers;
    for (size_t r = 0; r < count; ++r) pointers.push_back(&rows[r * size]);
    for (const bool accumulate : {false, true}) {
      std::vector<float> out(size, 2.0f);
      kernels().add_rows(pointers.data(), weights.data(), count, accumulate, size, out.data());
      for (size_t i = 0; i < size; ++i) {
        double sum = accumulate ? 2 : 0;
        for (size_t r = 0; r < count; ++r) sum += weights[r] * rows[r * size + i];
        EXPECT_NEAR(out[i], sum, 1e-5);
      }
    }
  }
  const std::vector<float> values = Random(3 * 37), weights = Random(3);
  const int32_t rows[] = {2, 0, 2};
  std::vector<float> out(3 * 40, 1.0f);
  kernels().add_to_rows(values.data(), rows, weights.data(), 3, 37, out.data(), 40);
  for (size_t i = 0; i < 40; ++i) {
    const auto term = [&](size_t r) { return i < 37 ? weights[r] * values[r * 37 + i] : 0; };
    EXPECT_NEAR(out[i], 1 + term(1), 1e-5);
    EXPECT_EQ(out[40 + i], 1);
    EXPECT_NEAR(out[80 + i], 1 + term(0) + term(2), 1e-5);
  }
  const std::vector<float> row = Random(3 * 16);
  std::vector<float> blocks(3 * 20, 5.0f);
  kernels().copy_blocks(row.data(), 3, 16, 20, blocks.data());
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i], i % 20 < 16 ? row[i / 20 * 16 + i % 20] : 5.0f);
  }
}

TEST_P(VectorKernelsTest, RanksOfScoresWithTiesAndInfinities) {
  for (size_t count : {1, 7, 16, 64, 75}) {
    std::vector<float> scores = Random(count);
    for (size_t i = 0; i < count; i += 3) scores[i] = std::round(scores[i]);
    scores[count / 2] = -std::numeric_limits<float>::infinity();
    std::vector<int32_t> ranks(count);
    kernels().rank_scores(scores.data(), count, ranks.data());
    for (size_t i = 0; i < count; ++i) {
      int32_t before = 0;
      for (size_t j = 0; j < count; ++j) {
        before += scores[j] > scores[i] || (scores[j] == scores[i] && j < i);
      }
      EXPECT_EQ(ranks[i], before) << i << " of " << count;
    }
  }
}

TEST_P(VectorKernelsTest, ProductsWithFewVectors) {
  for (size_t count : {1, 2, 3, 4, 7}) {
    for (size_t width : {3, 64, 75}) {
      const size_t rows = 11, stride = rows + 2;
      const std::vector<float> matrix = Random(rows * width), x = Random(count * width);
      const std::vector<float> values = Random(count * stride);
      std::vector<const float*> in;
      std::vector<float> dots(count * stride), out(count * width, 2.0f);
      std::vector<float*> outs;
      for (size_t c = 0; c < count; ++c) {
        in.push_back(&x[c * width]);
        outs.push_back(&out[c * width]);
      }
      kernels().dots_of_rows(matrix.data(), rows, width, in.data(), count, dots.data(), stride);
      for (const bool accumulate : {true, false}) {
        const std::vector<float> before = out;
        kernels().add_multiples(matrix.data(), rows, width, values.data(), stride, count,
                                accumulate, outs.data());
        for (size_t i = 0; i < out.size(); ++i) {
          double sum = accumulate ? before[i] : 0;
          for (size_t r = 0; r < rows; ++r) {
            sum += values[i / width * stride + r] * matrix[r * width + i % width];
          }
          ASSERT_NEAR(out[i], sum, 1e-4) << count << " " << width;
        }
      }
      for (size_t c = 0; c < count; ++c) {
        for (size_t r = 0; r < rows; ++r) {
          double dot = 0;
          for (size_t i = 0; i < width; ++i) dot += matrix[r * width + i] * x[c * width + i];
          ASSERT_NEAR(dots[c * stride + r], dot, 1e-4) << count << " " << width;
        }
      }
    }
  }
}

TEST_P(VectorKernelsTest, SoftmaxByBlocksEqualsSoftmaxOfAll) {
  const size_t rows = 30, columns = 19, block = 10;
  const std::vector<float> scores = Random(rows * columns);
  std::vector<float> maximum(columns, -1e30f), sum(columns), correction(columns);
  for (size_t first = 0; first < rows; first += block) {
    std::vector<float> part(&scores[first * columns], &scores[(first + block) * columns]);
    kernels().softmax_block(part.data(), maximum.data(), sum.data(), correction.data(), block,
                            columns);
    for (size_t q = 0; q < columns; ++q) {
      ASSERT_NEAR(part[q], std::exp(scores[first * columns + q] - maximum[q]), 1e-5);
    }
  }
  for (size_t q = 0; q < columns; ++q) {
    double expected = 0;
    for (size_t r = 0; r < rows; ++r) expected += std::exp(scores[r * columns + q]);
    EXPECT_NEAR(maximum[q] + std::log(sum[q]), std::log(expected), 1e-5);
  }
}

TEST_P(VectorKernelsTest, ExponentialsAreExactToAFewRoundings) {
  std::vector<float> values;
  for (float x = -79.99f; x <= 88; x += 0.0037f) values.push_back(x);
  std::vector<float> powers = values;
  const std::vector<float> zeros(values.size(), 0.0f);
  kernels().exp_shifted(powers.data(), zeros.data(), 1, values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(powers[i] / std::exp(double{values[i]}), 1, 4e-7) << values[i];
  }
}

TEST_P(VectorKernelsTest, ExponentialsOfMaskedScoresAreZero) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float masked : {-81.0f, -88.0f, -104.0f, -1e30f, -infinity}) {
    for (size_t at : {0, 5, 18}) {
      std::vector<float> values(19, -79.0f);
      values[at] = masked;
      kernels().exp_shifted(values.data(), std::vector<float>(19, 0.0f).data(), 1, values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        const double expected = i == at ? 0 : std::exp(-79.0);
        EXPECT_NEAR(values[i], expected, 1e-6 * expected) << kernels().name << " " << masked;
      }
    }
  }
}

TEST_P(VectorKernelsTest, SoftmaxRowAndItsLogSum) {
  for (size_t size : {1, 16, 83}) {
    const std::vector<float> scores = Random(size);
    std::vector<float> row = scores;
    const float log_sum = kernels().softmax_row(row.data(), size);
    double sum = 0;
    for (float score : scores) sum += std::exp(score);
    EXPECT_NEAR(log_sum, std::log(sum), 1e-5);
    for (size_t i = 0; i < size; ++i) EXPECT_NEAR(row[i], std::exp(scores[i]) / sum, 1e-6);
  }
}

TEST_P(VectorKernelsTest, DotAndScaleColumns) {
  const std::vector<float> a = Random(83), b = Random(83);
  double expected = 0;
  for (size_t i = 0; i < a.size(); ++i) expected += a[i] * b[i];
  EXPECT_NEAR(kernels().dot(a.data(), b.data(), a.size()), expected, 1e-4);
  std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  const float factor[] = {2, 3, 4};
  kernels().scale_columns(rows.data(), factor, 2, 3);
  EXPECT_EQ(rows, (std::vector<float>{2, 6, 12, 8, 15, 24}));
}

// A value that is not finite must reach the loss, where it stops the run.
TEST_P(VectorKernelsTest, NanPropagates) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t at : {0, 5, 18}) {
    std::vector<float> x(19, 1.0f), y(19), maximum(19, -1e30f), sum(19), correction(19);
    x[at] = nan;
    kernels().swiglu(x.data(), std::vector<float>(19, 1.0f).data(), y.data(), x.size());
    EXPECT_TRUE(std::isnan(y[at])) << kernels().name;
    kernels().rms_norm(x.data(), std::vector<float>(19, 1.0f).data(), 1e-5f, x.size(), y.data());
    EXPECT_TRUE(std::isnan(y[0])) << kernels().name;
    kernels().softmax_block(x.data(), maximum.data(), sum.data(), correction.data(), 1, x.size());
    EXPECT_TRUE(std::isnan(sum[at])) << kernels().name;
    for (const float value : {nan, -nan}) {
      std::vector<float> exponents(19, 0.0f);
      exponents[at] = value;
      kernels().exp_shifted(exponents.data(), std::vector<float>(19, 0.0f).data(), 1, 19);
      EXPECT_TRUE(std::isnan(exponents[at])) << kernels().name;
    }
    std::vector<float> row(19, 1.0f);
    row[at] = nan;
    EXPECT_TRUE(std::isnan(kernels().softmax_row(row.data(), row.size()))) << kernels().name;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, VectorKernelsTest, testing::ValuesIn(Levels()),
                         [](const auto& level) { return std::string(level.param->name); });

}  // namespace vector_kernels_test
}  // namespace braid
