#include "tests/model/reference_transformer.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/model/kernels/soft_merge_reference.h"

namespace braid {
namespace {

using Parameters = std::map<std::string, at::Tensor>;

// x [B, H, L, hd]
at::Tensor ReferenceRotate(const at::Tensor& x, const ReferenceRope& rope) {
  if (rope.none) return x;
  const int64_t length = x.size(2), width = x.size(3);
  at::Tensor cosine = at::empty({length, width}, x.options().requires_grad(false));
  at::Tensor sine = at::empty_like(cosine);
  for (int64_t p = 0; p < length; ++p) {
    for (int64_t j = 0; j < width; ++j) {
      const double angle = p * ReferenceFrequency(j % (width / 2), width, rope);
      cosine[p][j] = std::cos(angle);
      sine[p][j] = std::sin(angle);
    }
  }
  const at::Tensor a = x.narrow(3, 0, width / 2), b = x.narrow(3, width / 2, width / 2);
  return x * cosine + at::cat({-b, a}, 3) * sine;
}

at::Tensor ReferenceNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + epsilon) * weight;
}

// The norm `name` of the residual stream: LayerNorm where it has a bias.
at::Tensor ReferenceNorm(const Parameters& p, const std::string& name, const at::Tensor& x,
                         double epsilon) {
  const auto bias = p.find(name + ".bias");
  if (bias == p.end()) return ReferenceNorm(x, p.at(name + ".weight"), epsilon);
  return ReferenceNorm(x - x.mean(-1, true), p.at(name + ".weight"), epsilon) + bias->second;
}

at::Tensor ReferenceRoute(const at::Tensor& mean, const at::Tensor& router,
                          const v1::RoutingConfig& config) {
  at::Tensor input = mean;
  if (config.router_input() == v1::NORMALIZED_MEAN) {
    input = mean - mean.mean();
    input = input / at::sqrt(input.pow(2).mean() + 1e-5);
  }
  return at::softmax(at::mv(router, input), 0);
}

// Returns one row of routing weights per segment of one sequence (Algorithm 1).
std::vector<at::Tensor> ReferenceSegmentRows(const v1::RoutingConfig& routing,
                                             const at::Tensor& router,
                                             const std::vector<at::Tensor>& segments) {
  std::vector<at::Tensor> rows;
  for (size_t n = 0; n < segments.size(); ++n) {
    if (n > 0) {
      rows.push_back(ReferenceRoute(segments[n - 1].mean(0), router, routing));
    } else if (routing.first_segment() == v1::UNIFORM) {
      rows.push_back(
          at::full({router.size(0)}, 1.0 / static_cast<double>(router.size(0)), at::kDouble));
    } else {
      rows.push_back(ReferenceRoute(segments[0].mean(0), router, routing).detach());
    }
  }
  return rows;
}

struct ReferenceExpertWeights {
  at::Tensor router, gate, up, down;

  static ReferenceExpertWeights Of(const Parameters& p, const std::string& mlp) {
    return {p.at(mlp + "router.weight"), p.at(mlp + "experts.gate_proj.weight"),
            p.at(mlp + "experts.up_proj.weight"), p.at(mlp + "experts.down_proj.weight_t")};
  }

  // Applies expert e to the rows x [T, D].
  at::Tensor Apply(int64_t e, const at::Tensor& x) const {
    const at::Tensor g = at::matmul(x, gate[e].t());
    return at::matmul(g * at::sigmoid(g) * at::matmul(x, up[e].t()), down[e]);
  }
};

// Returns the lengths of the segments of tokens [L], and whether each begins a document.
std::vector<std::pair<int64_t, bool>> ReferenceSegments(const v1::ModelConfig& config,
                                                        const at::Tensor& tokens) {
  const bool cuts = config.routing().segment_boundaries() == v1::RoutingConfig::DOCUMENT;
  std::vector<std::pair<int64_t, bool>> segments;
  for (int64_t t = 0; t < tokens.size(0); ++t) {
    const bool begins = t == 0 || (cuts && tokens[t - 1].item<int64_t>() == config.document_end());
    if (begins || segments.back().first == config.routing().segment_length()) {
      segments.emplace_back(0, begins);
    }
    ++segments.back().first;
  }
  return segments;
}

// Merges experts for each segment of one sequence x [L, D]. Prefix routing repeats the row of the
// second segment, which is that of the first with a gradient.
at::Tensor ReferenceMerged(const v1::ModelConfig& config, const ReferenceExpertWeights& w,
                           const at::Tensor& x, const at::Tensor& tokens) {
  const v1::RoutingConfig& routing = config.routing();
  std::vector<at::Tensor> segments;
  int64_t begin = 0;
  const auto lengths = ReferenceSegments(config, tokens);
  for (const auto& [length, document] : lengths) {
    segments.push_back(x.narrow(0, begin, length));
    begin += length;
  }
  std::vector<at::Tensor> rows = ReferenceSegmentRows(routing, w.router, segments);
  for (size_t n = 1; n < rows.size(); ++n) {
    if (lengths[n].second && routing.reset_at_documents()) rows[n] = rows[0];
  }
  for (size_t n = 2; n < rows.size() && routing.router() == v1::PREFIX; ++n) rows[n] = rows[1];
  std::vector<at::Tensor> outputs;
  for (size_t n = 0; n < segments.size(); ++n) {
    outputs.push_back(SoftMergeReference(segments[n].unsqueeze(0), rows[n].unsqueeze(0),
                                         at::stack({w.gate, w.up}), w.down)[0]);
  }
  return at::cat(outputs);
}

// Returns the `capacity` decisions with the highest scores for expert e, by repeated search for the
// best remaining one; ties go to the lowest index.
std::vector<size_t> ReferenceChoice(const std::vector<at::Tensor>& rows, int64_t e,
                                    int64_t capacity) {
  std::vector<size_t> chosen;
  std::vector<bool> taken(rows.size());
  for (int64_t i = 0; i < capacity; ++i) {
    size_t best = rows.size();
    for (size_t n = 0; n < rows.size(); ++n) {
      if (taken[n]) continue;
      if (best == rows.size() || rows[n][e].item<double>() > rows[best][e].item<double>()) best = n;
    }
    taken[best] = true;
    chosen.push_back(best);
  }
  return chosen;
}

// Expert choice for one sequence x [L, D]: decisions are parts of the sequence, and each expert
// adds its scaled output to those that it chose.
at::Tensor ReferenceChosen(const v1::RoutingConfig& routing, const ReferenceExpertWeights& w,
                           const at::Tensor& x) {
  const bool by_token = routing.router() == v1::EXPERT_CHOICE_TOKEN;
  const std::vector<at::Tensor> pieces = x.split(by_token ? 1 : routing.segment_length(), 0);
  std::vector<at::Tensor> rows;
  if (by_token) {
    for (const at::Tensor& token : pieces) {
      rows.push_back(ReferenceRoute(token[0], w.router, routing));
    }
  } else {
    rows = ReferenceSegmentRows(routing, w.router, pieces);
  }
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& piece : pieces) outputs.push_back(at::zeros_like(piece));
  const int64_t experts = w.router.size(0);
  const auto capacity = static_cast<int64_t>(
      std::ceil(static_cast<double>(pieces.size()) / static_cast<double>(experts)));
  for (int64_t e = 0; e < experts; ++e) {
    for (const size_t n : ReferenceChoice(rows, e, capacity)) {
      outputs[n] = outputs[n] + rows[n][e] * w.Apply(e, pieces[n]);
    }
  }
  return at::cat(outputs);
}

at::Tensor ReferenceDense(const Parameters& p, const std::string& mlp, const at::Tensor& x) {
  const at::Tensor gate = at::matmul(x, p.at(mlp + "gate_proj.weight").t());
  const at::Tensor up = at::matmul(x, p.at(mlp + "up_proj.weight").t());
  return at::matmul(gate * at::sigmoid(gate) * up, p.at(mlp + "down_proj.weight_t"));
}

// GPT-2's FFN. With experts each unit counts where its expert is among the k whose mean of keys has
// the highest products with the token.
at::Tensor ReferenceGelu(const v1::RoutingConfig& routing, const Parameters& p,
                         const std::string& mlp, const at::Tensor& x) {
  const bool experts = p.count(mlp + "experts.up_proj.weight") > 0;
  const std::string units = mlp + (experts ? "experts." : "");
  const at::Tensor keys = p.at(units + "up_proj.weight");
  const at::Tensor z =
      at::matmul(x, keys.reshape({-1, x.size(2)}).t()) + p.at(units + "up_proj.bias");
  at::Tensor hidden = z / 2 * (1 + at::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z.pow(3))));
  if (experts) {
    const at::Tensor scores = at::matmul(x, keys.mean(1).t()).detach();
    const at::Tensor order = std::get<1>(scores.sort(/*stable=*/true, -1, /*descending=*/true));
    const at::Tensor best = order.narrow(-1, 0, routing.token().active_experts());
    const at::Tensor mask = at::zeros_like(scores).scatter(-1, best, 1.0);
    hidden = hidden * mask.repeat_interleave(keys.size(1), -1);
  }
  return at::matmul(hidden, p.at(units + "down_proj.weight_t").reshape({-1, x.size(2)})) +
         p.at(mlp + "down_proj.bias");
}

at::Tensor ReferenceFfn(const v1::ModelConfig& config, const Parameters& p, const std::string& mlp,
                        const at::Tensor& x, const at::Tensor& tokens) {
  const v1::RoutingConfig& routing = config.routing();
  if (p.count(mlp + "down_proj.bias") > 0) return ReferenceGelu(routing, p, mlp, x);
  // The parameters determine the kind of a layer.
  if (p.find(mlp + "router.weight") == p.end()) return ReferenceDense(p, mlp, x);
  const bool merged = routing.router() == v1::CAUSAL_SEGMENT || routing.router() == v1::PREFIX;
  const ReferenceExpertWeights w = ReferenceExpertWeights::Of(p, mlp);
  std::vector<at::Tensor> sequences;
  for (int64_t b = 0; b < x.size(0); ++b) {
    sequences.push_back(merged ? ReferenceMerged(config, w, x[b], tokens[b])
                               : ReferenceChosen(routing, w, x[b]));
  }
  return at::stack(sequences);
}

}  // namespace

double ReferenceFrequency(int64_t j, int64_t head_width, const ReferenceRope& rope) {
  const double frequency =
      std::pow(rope.theta, -2.0 * static_cast<double>(j) / static_cast<double>(head_width));
  const v1::RopeScaling& s = rope.scaling;
  if (s.type() == v1::LINEAR_ROPE) return frequency / s.factor();
  if (s.type() != v1::LLAMA3_ROPE) return frequency;
  const double wavelength = 2 * M_PI / frequency, length = s.original_length();
  if (wavelength > length / s.low_frequency_factor()) return frequency / s.factor();
  if (wavelength < length / s.high_frequency_factor()) return frequency;
  const double smooth = (length / wavelength - s.low_frequency_factor()) /
                        (s.high_frequency_factor() - s.low_frequency_factor());
  return (1 - smooth) * frequency / s.factor() + smooth * frequency;
}

at::Tensor ReferenceAttention(const at::Tensor& qkv, int64_t num_heads, int64_t num_key_heads,
                              const ReferenceRope& rope, const at::Tensor& hidden) {
  const int64_t batch = qkv.size(0), length = qkv.size(1), group = num_heads / num_key_heads;
  const int64_t width = qkv.size(2) / (num_heads + 2 * num_key_heads);
  const auto heads = [&](int64_t first, int64_t count) {
    return qkv.narrow(2, first * width, count * width)
        .reshape({batch, length, count, width})
        .transpose(1, 2);
  };
  const at::Tensor q = ReferenceRotate(heads(0, num_heads), rope);
  const at::Tensor k =
      ReferenceRotate(heads(num_heads, num_key_heads), rope).repeat_interleave(group, 1);
  const at::Tensor v = heads(num_heads + num_key_heads, num_key_heads).repeat_interleave(group, 1);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  at::Tensor unseen = at::ones({length, length}, at::kBool).triu(1);
  if (hidden.defined()) unseen = unseen.logical_or(hidden);
  const at::Tensor scores = (at::matmul(q, k.transpose(2, 3)) * scale)
                                .masked_fill(unseen, -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), v).transpose(1, 2).reshape({batch, length, -1});
}

// Returns where the mask DOCUMENT hides keys from queries: [B, 1, L, L], undefined without it.
static at::Tensor ReferenceMask(const v1::ModelConfig& config, const at::Tensor& tokens) {
  if (config.attention_mask() != v1::DOCUMENT) return {};
  const at::Tensor ends = tokens.eq(config.document_end()).to(at::kLong);
  const at::Tensor document = ends.cumsum(1) - ends;  // number of ends before the position
  return document.unsqueeze(2).ne(document.unsqueeze(1)).unsqueeze(1);
}

// Self-attention of x [B, L, D] before the output projection. The parameters determine whether
// there are biases and norms of heads.
static at::Tensor ReferenceSelfAttention(const v1::ModelConfig& config, const Parameters& p,
                                         const std::string& prefix, const at::Tensor& x,
                                         const at::Tensor& hidden) {
  std::vector<at::Tensor> qkv;
  for (const char* name : {"q", "k", "v"}) {
    at::Tensor rows = at::matmul(x, p.at(prefix + name + "_proj.weight").t());
    if (const auto bias = p.find(prefix + name + "_proj.bias"); bias != p.end()) {
      rows = rows + bias->second;
    }
    if (const auto norm = p.find(prefix + name + "_norm.weight"); norm != p.end()) {
      const at::Tensor heads = rows.reshape({x.size(0), x.size(1), -1, norm->second.size(0)});
      rows = ReferenceNorm(heads, norm->second, config.norm_epsilon()).flatten(2);
    }
    qkv.push_back(rows);
  }
  const int64_t num_heads = config.num_heads();
  const int64_t key_heads = qkv[1].size(2) * num_heads / qkv[0].size(2);
  return ReferenceAttention(
      at::cat(qkv, 2), num_heads, key_heads,
      {config.rope_theta(), config.rope_scaling(), p.count("model.embed_positions.weight") > 0},
      hidden);
}

at::Tensor ReferenceLoss(const v1::ModelConfig& config, const Parameters& p,
                         const at::Tensor& tokens, const at::Tensor& targets) {
  const double epsilon = config.norm_epsilon();
  const at::Tensor hidden = ReferenceMask(config, tokens);
  at::Tensor h = at::embedding(p.at("model.embed_tokens.weight"), tokens);
  if (const auto table = p.find("model.embed_positions.weight"); table != p.end()) {
    h = h + table->second.narrow(0, 0, tokens.size(1));
  }
  for (int i = 0; i < config.num_layers(); ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const at::Tensor a = ReferenceNorm(p, layer + "input_layernorm", h, epsilon);
    const at::Tensor mixed = ReferenceSelfAttention(config, p, layer + "self_attn.", a, hidden);
    h = h + at::matmul(mixed, p.at(layer + "self_attn.o_proj.weight").t());
    if (const auto bias = p.find(layer + "self_attn.o_proj.bias"); bias != p.end()) {
      h = h + bias->second;
    }
    const at::Tensor x = ReferenceNorm(p, layer + "post_attention_layernorm", h, epsilon);
    h = h + ReferenceFfn(config, p, layer + "mlp.", x, tokens);
  }
  h = ReferenceNorm(p, "model.norm", h, epsilon);
  const std::string head = config.tie_embeddings() ? "model.embed_tokens.weight" : "lm_head.weight";
  const at::Tensor logits = at::matmul(h, p.at(head).t());
  const at::Tensor chosen =
      logits.gather(2, targets.clamp_min(0).unsqueeze(2)).squeeze(2) - logits.logsumexp(2);
  return -(chosen * targets.ge(0)).sum();
}

}  // namespace braid
