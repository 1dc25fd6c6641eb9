#include "retrieval/contriever_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/blas_core.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// y = x weight^T + bias
struct Linear {
  at::Tensor weight, bias;  // [out, in], [out]

  at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
};

struct LayerNorm {
  at::Tensor weight, bias;  // [D]
  double epsilon = 0;

  at::Tensor operator()(const at::Tensor& x) const {
    return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
  }
};

struct Layer {
  Linear qkv;  // [3 D, D]: rows of query, key and value
  Linear attention_output;
  LayerNorm attention_norm;
  Linear intermediate, output;
  LayerNorm output_norm;
};

// Runs `body` without autograd; exceptions of the tensor library become a status.
absl::Status CatchErrors(const std::function<absl::Status()>& body) {
  try {
    const c10::InferenceMode guard;
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("contriever: out of memory");
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    // The library has no exception type for lack of memory; its messages contain one of these.
    const bool memory = what.find("allocate memory") != std::string::npos ||
                        what.find("out of memory") != std::string::npos;
    return memory ? absl::ResourceExhaustedError(absl::StrCat("contriever: out of memory: ", what))
                  : absl::InternalError(absl::StrCat("contriever: ", what));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("contriever: ", error.what()));
  }
}

// Reads weights into tensors and keeps the first error.
class Reader {
 public:
  explicit Reader(const ContrieverWeights& weights) : weights_(weights) {}

  // Reads the tensors `names` one below the other; shape[0] is the number of rows of all of them
  // together.
  at::Tensor Stack(const std::vector<std::string>& names, at::IntArrayRef shape) {
    at::Tensor tensor = at::empty(shape, at::kFloat);
    const auto count = static_cast<size_t>(tensor.numel());
    const std::span<float> values(tensor.data_ptr<float>(), count);
    const size_t part = count / names.size();
    for (size_t i = 0; i < names.size(); ++i) {
      if (status_.ok()) status_ = weights_.Read(names[i], values.subspan(i * part, part));
    }
    return tensor;
  }

  Linear ReadLinear(const std::vector<std::string>& stems, int64_t out, int64_t in) {
    std::vector<std::string> weights, biases;
    for (const std::string& stem : stems) {
      weights.push_back(stem + ".weight");
      biases.push_back(stem + ".bias");
    }
    return {Stack(weights, {out, in}), Stack(biases, {out})};
  }

  LayerNorm ReadNorm(const std::string& stem, const ContrieverConfig& config) {
    return {Stack({stem + ".weight"}, {config.hidden_size}),
            Stack({stem + ".bias"}, {config.hidden_size}), config.layer_norm_eps};
  }

  const absl::Status& status() const { return status_; }

 private:
  const ContrieverWeights& weights_;
  absl::Status status_;
};

Layer ReadLayer(int32_t number, const ContrieverConfig& config, Reader* reader) {
  const std::string layer = absl::StrCat("encoder.layer.", number, ".");
  const std::string self = layer + "attention.self.";
  const int64_t d = config.hidden_size, f = config.intermediate_size;
  return {.qkv = reader->ReadLinear({self + "query", self + "key", self + "value"}, 3 * d, d),
          .attention_output = reader->ReadLinear({layer + "attention.output.dense"}, d, d),
          .attention_norm = reader->ReadNorm(layer + "attention.output.LayerNorm", config),
          .intermediate = reader->ReadLinear({layer + "intermediate.dense"}, f, d),
          .output = reader->ReadLinear({layer + "output.dense"}, d, f),
          .output_norm = reader->ReadNorm(layer + "output.LayerNorm", config)};
}

// Computes self-attention of e [B, T, D]. `mask` is [B, 1, 1, T], 0 for tokens and -inf for
// padding, whose weight is then exactly 0; it is undefined if there is no padding.
at::Tensor Attend(const Layer& layer, int64_t num_heads, const at::Tensor& e,
                  const at::Tensor& mask) {
  const int64_t b = e.size(0), t = e.size(1), d = e.size(2), width = d / num_heads;
  const at::Tensor qkv = layer.qkv(e).view({b, t, 3, num_heads, width}).permute({2, 0, 3, 1, 4});
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  at::Tensor scores = at::matmul(qkv[0] * scale, qkv[1].transpose(-1, -2));  // [B, H, T, T]
  if (mask.defined()) scores.add_(mask);
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), qkv[2]);  // [B, H, T, D / H]
  return layer.attention_output(mixed.transpose(1, 2).reshape({b, t, d}));
}

at::Tensor RunLayer(const Layer& layer, int64_t num_heads, const at::Tensor& e,
                    const at::Tensor& mask) {
  const at::Tensor x = layer.attention_norm(Attend(layer, num_heads, e, mask).add_(e));
  return layer.output_norm(layer.output(at::gelu(layer.intermediate(x))).add_(x));
}

// Returns whether each position holds a token, [B, T].
at::Tensor TokensOf(const at::Tensor& lengths, int64_t t) {
  return at::arange(t, lengths.options()).unsqueeze(0).lt(lengths.unsqueeze(1));
}

// Returns [B, D] from the last hidden states e [B, T, D], which are overwritten, of which `tokens`
// [B, T] belong to the texts: the first `sizes` [B] of each row.
at::Tensor PoolStates(at::Tensor e, const at::Tensor& tokens, const at::Tensor& sizes,
                      Pooling pooling) {
  if (pooling == Pooling::kClassify) return e.select(1, 0);
  if (pooling == Pooling::kLastToken) {
    const at::Tensor last = (sizes - 1).view({-1, 1, 1}).expand({-1, 1, e.size(2)});
    return e.gather(1, last).squeeze(1);
  }
  const at::Tensor sums = e.masked_fill_(tokens.logical_not().unsqueeze(2), 0).sum(1);
  return sums.div_(sizes.unsqueeze(1));
}

at::Tensor ToTensor(std::span<const int32_t> values, at::IntArrayRef shape) {
  // The library only reads from the memory.
  return at::from_blob(const_cast<int32_t*>(values.data()), shape, at::kInt).to(at::kLong);
}

}  // namespace

struct ContrieverModel::Tensors {
  at::Tensor words;      // [V, D]
  at::Tensor positions;  // [max_position_embeddings, D], type 0 added
  LayerNorm norm;
  std::vector<Layer> layers;
};

void SetContrieverThreads(int num_threads) {
  num_threads = std::max(1, num_threads);
  at::set_num_threads(num_threads);
  SetBlasThreads(num_threads);
}

ContrieverModel::ContrieverModel(const ContrieverConfig& config,
                                 std::unique_ptr<const Tensors> tensors)
    : config_(config), tensors_(std::move(tensors)) {}
ContrieverModel::~ContrieverModel() = default;

absl::StatusOr<std::unique_ptr<ContrieverModel>> ContrieverModel::Load(
    const ContrieverConfig& config, const ContrieverWeights& weights) {
  auto tensors = std::make_unique<Tensors>();
  RETURN_IF_ERROR(CatchErrors([&] {
    const int64_t d = config.hidden_size;
    Reader reader(weights);
    tensors->words = reader.Stack({"embeddings.word_embeddings.weight"}, {config.vocab_size, d});
    tensors->positions = reader.Stack({"embeddings.position_embeddings.weight"},
                                      {config.max_position_embeddings, d});
    tensors->positions.add_(
        reader.Stack({"embeddings.token_type_embeddings.weight"}, {config.type_vocab_size, d})[0]);
    tensors->norm = reader.ReadNorm("embeddings.LayerNorm", config);
    for (int32_t i = 0; i < config.num_hidden_layers && reader.status().ok(); ++i) {
      tensors->layers.push_back(ReadLayer(i, config, &reader));
    }
    return reader.status();
  }));
  return std::unique_ptr<ContrieverModel>(new ContrieverModel(config, std::move(tensors)));
}

absl::Status ContrieverModel::Pool(std::span<const int32_t> ids, std::span<const int32_t> lengths,
                                   Pooling pooling, std::span<float> pooled) const {
  const auto b = static_cast<int64_t>(lengths.size());
  const auto t = static_cast<int64_t>(ids.size() / std::max<size_t>(lengths.size(), 1));
  BRAID_CHECK(b > 0 && b * t == static_cast<int64_t>(ids.size()) &&
              t <= config_.max_position_embeddings &&
              pooled.size() == lengths.size() * static_cast<size_t>(config_.hidden_size))
      << b << " " << ids.size() << " " << pooled.size();
  return CatchErrors([&] {
    const Tensors& model = *tensors_;
    const at::Tensor sizes = ToTensor(lengths, {b});
    const at::Tensor tokens = TokensOf(sizes, t);
    at::Tensor mask;
    if (std::ranges::any_of(lengths, [t](int32_t length) { return length < t; })) {
      mask = at::zeros({b, 1, 1, t}, model.words.options());
      mask.masked_fill_(tokens.logical_not().view({b, 1, 1, t}),
                        -std::numeric_limits<float>::infinity());
    }
    const at::Tensor numbers = ToTensor(ids, {b, t});
    at::Tensor e =
        model.norm(at::embedding(model.words, numbers).add_(model.positions.narrow(0, 0, t)));
    for (const Layer& layer : model.layers)
      e = RunLayer(layer, config_.num_attention_heads, e, mask);
    const at::Tensor vectors = PoolStates(e, tokens, sizes, pooling).to(at::kCPU).contiguous();
    std::copy_n(vectors.data_ptr<float>(), pooled.size(), pooled.data());
    return absl::OkStatus();
  });
}

}  // namespace braid
