#include "trainer/expert_similarity.h"

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace expert_similarity_test {

std::vector<float> Normals(size_t count, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(*random);
  return values;
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// Concatenates each expert's vector, then computes every pair.
double SlowMeanPairwiseCosine(const std::vector<std::vector<float>>& matrices, size_t experts) {
  std::vector<std::vector<float>> vectors(experts);
  for (const std::vector<float>& matrix : matrices) {
    const size_t size = matrix.size() / experts;
    for (size_t i = 0; i < matrix.size(); ++i) vectors[i / size].push_back(matrix[i]);
  }
  double sum = 0;
  int pairs = 0;
  for (size_t a = 0; a < experts; ++a) {
    for (size_t b = 0; b < a; ++b, ++pairs) {
      const double lengths = std::sqrt(Dot(vectors[a], vectors[a]) * Dot(vectors[b], vectors[b]));
      if (lengths > 0) sum += Dot(vectors[a], vectors[b]) / lengths;
    }
  }
  return sum / pairs;
}

double Cosine(const std::vector<std::vector<float>>& matrices, int experts) {
  const std::vector<std::span<const float>> spans(matrices.begin(), matrices.end());
  return MeanPairwiseCosine(spans, experts);
}

TEST(ExpertSimilarityTest, PairwiseCosinesHaveTheirMeanAndAreSymmetric) {
  std::mt19937 random(4);
  const std::vector<std::vector<float>> matrices = {Normals(5 * 70, &random),
                                                    Normals(5 * 9, &random)};
  const std::vector<std::span<const float>> spans(matrices.begin(), matrices.end());
  const std::vector<double> cosines = PairwiseCosines(spans, 5);
  double sum = 0;
  for (size_t a = 0; a < 5; ++a) {
    EXPECT_EQ(cosines[a * 5 + a], 1);
    for (size_t b = 0; b < a; ++b) {
      EXPECT_EQ(cosines[a * 5 + b], cosines[b * 5 + a]);
      sum += cosines[a * 5 + b];
    }
  }
  EXPECT_NEAR(sum / 10, SlowMeanPairwiseCosine(matrices, 5), 1e-12);
}

TEST(ExpertSimilarityTest, EqualsTheMeanOverAllPairs) {
  std::mt19937 random(3);
  for (const size_t experts : {2, 3, 8, 33}) {
    // Sizes near those of lanes and blocks.
    for (const size_t size : {1, 7, 8, 1023, 1024, 2500}) {
      std::vector<std::vector<float>> matrices = {Normals(experts * size, &random),
                                                  Normals(experts * 5, &random)};
      // Experts with a common component and different lengths.
      for (size_t i = 0; i < matrices[0].size(); ++i) {
        matrices[0][i] = (matrices[0][i] + 0.5f) * static_cast<float>(1 + i / size);
      }
      const double expected = SlowMeanPairwiseCosine(matrices, experts);
      EXPECT_NEAR(Cosine(matrices, static_cast<int>(experts)), expected, 1e-12)
          << experts << " experts of " << size;
    }
  }
}

TEST(ExpertSimilarityTest, IdenticalExpertsHaveCosineOne) {
  std::mt19937 random(4);
  const std::vector<float> expert = Normals(100, &random);
  std::vector<float> matrix;
  for (int copy = 0; copy < 5; ++copy) matrix.insert(matrix.end(), expert.begin(), expert.end());
  EXPECT_NEAR(Cosine({matrix}, 5), 1, 1e-12);
  for (size_t i = 0; i < 100; ++i) matrix[i] *= 7;  // the length has no influence
  EXPECT_NEAR(Cosine({matrix}, 5), 1, 1e-12);
}

TEST(ExpertSimilarityTest, KnowsOrthogonalAndOppositeExperts) {
  EXPECT_NEAR(Cosine({{1, 0, 0, 1}}, 2), 0, 1e-15);
  EXPECT_NEAR(Cosine({{1, 2, -1, -2}}, 2), -1, 1e-15);
}

TEST(ExpertSimilarityTest, AnExpertOfZerosHasCosineZero) {
  EXPECT_NEAR(Cosine({{0, 0, 3, 4, 3, 4}}, 3), 1.0 / 3, 1e-15);
  EXPECT_EQ(Cosine({{0, 0}}, 2), 0);
}

TEST(ExpertSimilarityTest, ASingleExpertHasCosineOne) { EXPECT_EQ(Cosine({{1, 2}}, 1), 1); }

TEST(ExpertSimilarityTest, NanPropagatesToTheCosine) {
  EXPECT_TRUE(std::isnan(Cosine({{std::nanf(""), 1, 1, 1}}, 2)));
}

}  // namespace expert_similarity_test
}  // namespace braid
