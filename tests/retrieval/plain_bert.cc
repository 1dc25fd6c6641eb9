#include "tests/retrieval/plain_bert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows Add(Rows x, const Rows& y) {
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < x[i].size(); ++j) x[i][j] += y[i][j];
  }
  return x;
}

void Softmax(std::vector<double>* scores) {
  const double largest = *std::ranges::max_element(*scores);
  double sum = 0;
  for (double& score : *scores) sum += score = std::exp(score - largest);
  for (double& score : *scores) score /= sum;
}

}  // namespace

PlainBert::PlainBert(const ContrieverConfig& config, const ContrieverWeights& weights)
    : config_(config) {
  for (const TensorInfo& tensor : ContrieverTensors(config)) {
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    std::vector<float>& values = values_[tensor.name];
    values.resize(static_cast<size_t>(count));
    EXPECT_TRUE(weights.Read(tensor.name, values).ok()) << tensor.name;
  }
}

Rows PlainBert::Linear(const Rows& x, const std::string& stem) const {
  const std::vector<float>& weight = values_.at(stem + ".weight");
  const std::vector<float>& bias = values_.at(stem + ".bias");
  Rows y(x.size(), std::vector<double>(bias.begin(), bias.end()));
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t out = 0; out < bias.size(); ++out) {
      for (size_t in = 0; in < x[t].size(); ++in) {
        y[t][out] += weight[out * x[t].size() + in] * x[t][in];
      }
    }
  }
  return y;
}

Rows PlainBert::LayerNorm(Rows x, const std::string& stem) const {
  const std::vector<float>& weight = values_.at(stem + ".weight");
  const std::vector<float>& bias = values_.at(stem + ".bias");
  for (std::vector<double>& row : x) {
    double mean = 0, variance = 0;
    for (const double value : row) mean += value / static_cast<double>(row.size());
    for (const double value : row) {
      variance += (value - mean) * (value - mean) / static_cast<double>(row.size());
    }
    for (size_t j = 0; j < row.size(); ++j) {
      row[j] = (row[j] - mean) / std::sqrt(variance + config_.layer_norm_eps) * weight[j] + bias[j];
    }
  }
  return x;
}

Rows PlainBert::Attention(const Rows& x, const std::string& layer) const {
  const Rows query = Linear(x, layer + "attention.self.query");
  const Rows key = Linear(x, layer + "attention.self.key");
  const Rows value = Linear(x, layer + "attention.self.value");
  const auto width = static_cast<size_t>(config_.hidden_size / config_.num_attention_heads);
  Rows mixed(x.size(), std::vector<double>(x[0].size(), 0));
  for (size_t head = 0; head < x[0].size(); head += width) {
    for (size_t t = 0; t < x.size(); ++t) {
      std::vector<double> scores(x.size(), 0);
      for (size_t s = 0; s < x.size(); ++s) {
        for (size_t j = head; j < head + width; ++j) scores[s] += query[t][j] * key[s][j];
        scores[s] /= std::sqrt(static_cast<double>(width));
      }
      Softmax(&scores);
      for (size_t s = 0; s < x.size(); ++s) {
        for (size_t j = head; j < head + width; ++j) mixed[t][j] += scores[s] * value[s][j];
      }
    }
  }
  return Linear(mixed, layer + "attention.output.dense");
}

std::vector<double> PlainBert::Embed(std::span<const int32_t> ids, Pooling pooling) const {
  const auto d = static_cast<size_t>(config_.hidden_size);
  Rows e(ids.size(), std::vector<double>(d));
  for (size_t t = 0; t < ids.size(); ++t) {
    for (size_t j = 0; j < d; ++j) {
      e[t][j] = static_cast<double>(values_.at(
                    "embeddings.word_embeddings.weight")[static_cast<size_t>(ids[t]) * d + j]) +
                values_.at("embeddings.position_embeddings.weight")[t * d + j] +
                values_.at("embeddings.token_type_embeddings.weight")[j];
    }
  }
  e = LayerNorm(e, "embeddings.LayerNorm");
  for (int32_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i) + ".";
    e = LayerNorm(Add(Attention(e, layer), e), layer + "attention.output.LayerNorm");
    Rows h = Linear(e, layer + "intermediate.dense");
    for (auto& row : h) {
      for (double& x : row) x = x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    }
    e = LayerNorm(Add(Linear(h, layer + "output.dense"), e), layer + "output.LayerNorm");
  }
  std::vector<double> sum(d, 0);
  double squares = 0;
  if (pooling == Pooling::kClassify) e = {e.front()};
  if (pooling == Pooling::kLastToken) e = {e.back()};
  for (const auto& row : e) {
    for (size_t j = 0; j < d; ++j) sum[j] += row[j];
  }
  for (const double x : sum) squares += x * x;
  for (double& x : sum) x /= std::sqrt(squares);
  return sum;
}

}  // namespace braid
