// A LLaMA-style decoder whose FFNs are dense, merged per segment from soft experts (arXiv
// 2405.03133, Algorithm 1), or sparsely routed (proto Router): parameters, training pass,
// evaluation, decoding. The tensor library does not appear in this header.
//
// Shapes: B sequences, L tokens each, V vocabulary, D width, F FFN width, N segments of S tokens, E
// experts. Token arrays are row-major [B, L].
//
//   ASSIGN_OR_RETURN(auto model, LanguageModel::Create(config, seed));
//   ASSIGN_OR_RETURN(TrainResult result,
//                    model->ForwardBackward(inputs, targets, B, 1.0 / tokens, false));
//   optimizer.Step(model->values(), model->gradients());  // in place
//
// Not thread-safe: a model has scratch state. Results are a pure function of the arguments, the
// weights and the number of threads.
#ifndef BRAID_MODEL_LANGUAGE_MODEL_H_
#define BRAID_MODEL_LANGUAGE_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/config/decoder.h"
#include "model/config/merge_mode.h"
#include "model/config/rank_sum.h"
#include "model/config/shard.h"

namespace braid {

// One named tensor of a model. The spans are views into the model's two flat buffers.
struct Parameter {
  // Hugging Face LLaMA name; docs/model.md lists the names of expert and router tensors.
  std::string name;
  std::vector<int64_t> shape;
  // Row-major, product(shape) elements. A parameter that a Finetuning leaves out has no gradient.
  std::span<float> value;
  std::span<float> gradient;
  // True if weight decay applies: for tensors of two or more dimensions.
  bool decay = false;
  // False for a parameter that keeps its initial value, such as the matrix of a FROZEN gate: its
  // gradient stays zero, and an optimizer must leave it alone.
  bool trained = true;
  // Factor of the learning rate; 0 for a parameter that keeps its value although it is trained.
  double rate_factor = 1;
  // The same in weight decay, which WIDTH_SCALED does not scale.
  double decay_factor = 1;
};

// Routing weights of one layer with experts, [B, R, E]; each row [E] sums to 1. A row covers
// TokensPerDecision(config) positions; the last row of a sequence may cover fewer. For expert
// choice the rows are the scores, whether or not an expert took the positions.
struct LayerRoutingWeights {
  int layer = 0;
  std::vector<float> weights;
  // TOKEN_CHOICE: the experts that each token uses, [B, L, k], ascending, with -1 for those that
  // the gate RELU leaves out. Empty for other routers.
  std::vector<int32_t> chosen;
};

// How many positions with a target chose each layer in one mixing layer; a position with K choices
// counts K times.
struct LayerChoiceCounts {
  int layer = 0;
  std::vector<int64_t> counts;  // [num_layers]
};

// The result of a forward pass over a batch of B sequences of L tokens.
struct ForwardResult {
  // [B, L], nats, or the squared errors of a regression; 0 where the target is negative.
  std::vector<float> token_loss;
  // One entry per layer with experts, by ascending layer. Empty unless requested.
  std::vector<LayerRoutingWeights> routing = {};
  // [B, L]: the token or class with the highest logit, the first of equal ones, where the target is
  // not negative, and -1 elsewhere. Empty unless requested, and for a regression.
  std::vector<int32_t> predicted = {};
};

// The sums of a training pass over a batch of B sequences. Gradients are in the model.
struct TrainResult {
  // Nats, summed over the tokens that have a target; of a regression, squared errors.
  double loss_sum = 0;
  int64_t num_tokens = 0;
  // The same without the first segment_length positions of each sequence.
  double loss_sum_after_first_segment = 0;
  int64_t num_tokens_after_first_segment = 0;
  // The balance loss of each sequence, or the penalty of the gate RELU, without its coefficient and
  // summed over layers, times the sequence's tokens; 0 without one. Not part of loss_sum.
  double balance_loss_sum = 0;
  // The divergence of the two passes of a consistency loss, nats, summed as loss_sum and not part
  // of it; loss_sum is then the mean of both passes.
  double divergence_sum = 0;
  // Gate RELU: experts that the tokens with a target use, summed over layers.
  double active_experts_sum = 0;
  // With centered_input: the sum of the FFN inputs of the tokens that have a target, [layers with
  // experts * D]; empty otherwise.
  std::vector<double> input_sums;
  // Nats of each sequence, summed over its tokens that have a target, [B].
  std::vector<double> sequence_loss;
  // One entry per layer with experts, by ascending layer. Empty unless requested.
  std::vector<LayerRoutingWeights> routing;
  // One entry per mixing layer that may take a second pass, ascending. Empty unless routing is
  // requested.
  std::vector<LayerChoiceCounts> layer_choices;
};

// Identifies the sequences of a training batch. Routers and dropout with random numbers draw them
// as a pure function of it, so that they do not depend on how a global batch is distributed.
struct BatchIdentity {
  uint64_t seed = 0;
  int64_t step = 0;
  // One per sequence; when empty, sequences are numbered from 0.
  std::span<const int64_t> instances = {};
  // [B, L]: the first position of the example of each position, where examples are packed into
  // sequences: attention sees none before it, and with the mask DOCUMENT none before the document
  // either. Never falls within a sequence. When empty, the model's attention mask decides alone.
  std::span<const int32_t> first_visible = {};
  // [B, L]: what a model with label_head.regression is to predict where targets are not negative.
  std::span<const float> numbers = {};
  // Sums over the ranks that compute the batch together; when empty, this one computes it alone.
  // With the decisions BATCH_MODE and BATCH_MEAN of LayerMixing all of these sequences choose
  // together: one sum for each mixing layer, and another one in the backward pass where the choice
  // has a gradient. It must therefore be set on all ranks or on none.
  RankSum sum_over_ranks = nullptr;
};

// A callback that receives a range of gradients() that is complete. Called in the thread that
// computes the backward pass; must not throw.
using GradientsReady = std::function<void(Shard)>;

class LanguageModel {
 public:
  // Creates a model with seeded initial weights. They are a pure function of seed, parameter name
  // and shape, so models of one seed that differ only in routing agree on the parameters that both
  // have. Without a seed all values are zero, for callers that set each of them. `resolved` comes
  // from ResolveModelConfig. ResourceExhausted when the buffers do not fit into memory.
  // `finetuning`, from ResolveFinetuning, says which parameters are trained and adds adapters, with
  // which the model computes what MergeAdapters makes of it.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> Create(
      const v1::ModelConfig& resolved, std::optional<uint64_t> seed,
      const v1::Finetuning& finetuning = {});
  ~LanguageModel();
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  const v1::ModelConfig& config() const;
  const v1::Finetuning& finetuning() const;

  // Parameters in a fixed order, adapters last; together they cover values() and gradients()
  // without gaps. All views stay valid for the lifetime of the model, and values may be changed in
  // place between calls.
  std::span<Parameter> parameters();
  std::span<float> values();
  std::span<float> gradients();
  // The last part of values(): the parameters that have a gradient, in the order of gradients().
  std::span<float> trained_values();

  // Sets the number of experts that each token uses from now on. InvalidArgument unless the router
  // is TOKEN_CHOICE and 1 <= active <= num_experts.
  absl::Status SetActiveExperts(int active);

  // Makes the gate RANDOM choose token.active_experts experts outside training too, as a pure
  // function of this seed, the layer and the position in the sequence; decoders may have another
  // seed. InvalidArgument as CheckRoutingSeed.
  absl::Status SetRoutingSeed(uint64_t routing_seed);
  // The seed that was set.
  std::optional<uint64_t> routing_seed() const;
  // Adds uniform noise in (-a, a), a = `noise` standard deviations of the embedding matrix, to
  // every component of the token embeddings of later passes and of decoders, as a pure function of
  // the seed, the token and its position in its document or example. InvalidArgument unless `noise`
  // is a number of at least 0.
  absl::Status SetInputNoise(double noise, uint64_t seed);

  // Returns config() with as many active experts as tokens use outside training (InferenceExperts).
  v1::ModelConfig InferenceConfig() const;

  // Sets the coefficient of the penalty of the gate RELU in later training passes; initially
  // token.l1_start. Other models ignore it.
  void SetGatePenalty(double coefficient);

  // Adds gradient_scale * d(sum of token losses)/d(parameter) to gradients(), and that of the
  // balance loss, which weighs a sequence by its tokens, of the losses of learned dropout, which
  // weigh the batch by its tokens, and of the consistency loss. `inputs` and
  // `targets` are [batch_size, L] for any 1 <= L <= sequence_length; targets of -1 are ignored. The
  // targets of a model with a label head are classes, or 0 where there is a number.
  // InvalidArgument when a size or a token id is out of range. During backward, `gradients_ready`
  // receives each range of gradients() as soon as this call will not change it any more: once, and
  // roughly from the end of the array to the start. Parameters that no token depends on may be
  // omitted.
  absl::StatusOr<TrainResult> ForwardBackward(std::span<const int32_t> inputs,
                                              std::span<const int32_t> targets, int64_t batch_size,
                                              double gradient_scale, bool measure_routing,
                                              const GradientsReady& gradients_ready = nullptr,
                                              const BatchIdentity& identity = {});

  // Returns losses without computing gradients. kSegment routes as in training, except that expert
  // choice routes causally; kPrompt routes each whole sequence on the mean of its first segment
  // (see MergeMode). A token that chooses uses InferenceExperts experts. `first_visible` and
  // `numbers` as in BatchIdentity. `want_predicted` costs one more product of the head for
  // positions with a target. Errors as ForwardBackward.
  absl::StatusOr<ForwardResult> Evaluate(std::span<const int32_t> inputs,
                                         std::span<const int32_t> targets, int64_t batch_size,
                                         MergeMode mode, bool want_routing,
                                         std::span<const int32_t> first_visible = {},
                                         std::span<const float> numbers = {},
                                         bool want_predicted = false);

  // Returns the logits [B, L, HeadWidth], routed as kSegment.
  absl::StatusOr<std::vector<float>> Logits(std::span<const int32_t> inputs, int64_t batch_size);

  // Returns a decoder for one sequence. It reads this model's weights: the model must outlive it,
  // and its weights must not change while the decoder is in use. Tokens use `active_experts`
  // experts, or InferenceExperts of this model when it is 0; Prefill returns the error of
  // CheckActiveExperts. Without `routing_seed` that of SetRoutingSeed applies. Requires a model
  // without adapters (see MergeAdapters).
  std::unique_ptr<Decoder> NewDecoder(MergeMode mode, int active_experts = 0,
                                      std::optional<uint64_t> routing_seed = {});

  // Equivalent to decoders[i]->Step(tokens[i]) for all i; returns [n][V]. Weights that the
  // sequences share are read from memory once for the whole call; reading them is what bounds the
  // time of a step. Each decoder comes from NewDecoder of this model and occurs once; modes and
  // lengths may differ. Errors are those of Step, and InvalidArgument when the counts differ; all
  // sequences are then unchanged, except after an error of the tensor library, which resets all of
  // them.
  absl::StatusOr<std::vector<std::vector<float>>> StepTogether(std::span<Decoder* const> decoders,
                                                               std::span<const int32_t> tokens);

 private:
  class Impl;
  explicit LanguageModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Sets the number of threads of every later computation (tensor library and BLAS; all cores when
// less than 1), and allocator settings that keep the memory of large tensors in the process instead
// of returning it to the kernel. Affects the whole process.
void SetModelThreads(int num_threads);

}  // namespace braid

#endif  // BRAID_MODEL_LANGUAGE_MODEL_H_
