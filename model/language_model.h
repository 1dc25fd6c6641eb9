// A LLaMA-style decoder whose FFNs are dense, merged per segment from soft
// experts (arXiv 2405.03133, Algorithm 1), or routed otherwise (proto Router):
// parameters, training pass, evaluation, decoding. The tensor library stays
// behind this header.
//
// Shapes: B sequences, L tokens each, V vocabulary, D width, F FFN width,
// N segments of S tokens, E experts. Token arrays are row-major [B, L].
//
//   ASSIGN_OR_RETURN(auto model, LanguageModel::Create(config, seed));
//   ASSIGN_OR_RETURN(TrainResult result,
//                    model->ForwardBackward(inputs, targets, B, 1.0 / tokens, false));
//   optimiser.Step(model->values(), model->gradients());  // in place
//
// One caller at a time: a model has scratch state. Results are a pure function
// of the arguments, the weights and the number of threads.
#ifndef BRAID_MODEL_LANGUAGE_MODEL_H_
#define BRAID_MODEL_LANGUAGE_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/config/decoder.h"
#include "model/config/merge_mode.h"
#include "model/config/shard.h"

namespace braid {

// One named tensor of a model: views into the model's two buffers.
struct Parameter {
  // Hugging Face LLaMA name; see docs/model.md for the experts' names.
  std::string name;
  std::vector<int64_t> shape;
  // Row-major, of product(shape) elements.
  std::span<float> value;
  std::span<float> gradient;
  // Subject to weight decay: two or more dimensions.
  bool decay = false;
};

// Routing weights of one layer with experts, [B, R, E], each [E] row summing to
// 1. A row stands for TokensPerDecision(config) positions, the last one of a
// sequence perhaps for fewer. For expert choice they are the scores, whether an
// expert took the positions or not.
struct LayerRoutingWeights {
  int layer = 0;
  std::vector<float> weights;
};

struct ForwardResult {
  // [B, L] nats; 0 where the target is negative.
  std::vector<float> token_loss;
  // One entry a layer with experts, ascending, only when asked.
  std::vector<LayerRoutingWeights> routing;
};

struct TrainResult {
  // Nats, summed over the tokens with a target.
  double loss_sum = 0;
  int64_t num_tokens = 0;
  // The same without the first segment_length positions of each sequence.
  double loss_sum_after_first_segment = 0;
  int64_t num_tokens_after_first_segment = 0;
  // One entry a layer with experts, ascending, only when asked.
  std::vector<LayerRoutingWeights> routing;
};

// Takes a part of gradients() that is complete, in the thread that computes; must not
// throw.
using GradientsReady = std::function<void(Shard)>;

class LanguageModel {
 public:
  // Initial weights are a pure function of seed, parameter name and shape:
  // models of one seed that differ only in routing agree on the parameters that
  // both have. `resolved` comes from ResolveModelConfig. ResourceExhausted when
  // the buffers do not fit into memory.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> Create(const v1::ModelConfig& resolved,
                                                               uint64_t seed);
  ~LanguageModel();
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  const v1::ModelConfig& config() const;

  // In a fixed order; together they cover values() and gradients() without
  // gaps. All views stay valid as long as the model, and values may be changed
  // in place between calls.
  std::span<Parameter> parameters();
  std::span<float> values();
  std::span<float> gradients();

  // Adds gradient_scale * d(sum of token losses)/d(parameter) to gradients().
  // `inputs` and `targets` are [batch_size, L] with any 1 <= L <=
  // sequence_length; a target of -1 is ignored. InvalidArgument for a size or a
  // token id that does not fit.
  // During backward, `gradients_ready` gets each part of gradients() as soon as this
  // call will not change it any more, once and roughly from the end to the start;
  // what no token depends on may be left out.
  absl::StatusOr<TrainResult> ForwardBackward(std::span<const int32_t> inputs,
                                              std::span<const int32_t> targets, int64_t batch_size,
                                              double gradient_scale, bool measure_routing,
                                              const GradientsReady& gradients_ready = nullptr);

  // Losses without gradients. kSegment routes as in training, expert choice
  // causally; kPrompt routes each whole sequence on the mean of its first
  // segment (see MergeMode).
  absl::StatusOr<ForwardResult> Evaluate(std::span<const int32_t> inputs,
                                         std::span<const int32_t> targets, int64_t batch_size,
                                         MergeMode mode, bool want_routing);

  // [B, L, V], routed as kSegment.
  absl::StatusOr<std::vector<float>> Logits(std::span<const int32_t> inputs, int64_t batch_size);

  // A decoder for one sequence. It reads this model's weights, which must
  // outlive it and not change while it is in use.
  std::unique_ptr<Decoder> NewDecoder(MergeMode mode);

  // decoders[i]->Step(tokens[i]) for all i at once, [n][V]: what sequences share of the
  // model is read once for all of them, which is what a step takes its time for. Each
  // decoder is one of NewDecoder and occurs once; modes and lengths may differ. Errors
  // are Step's, and InvalidArgument for counts that differ; all sequences then stay as
  // they are, but for ones of the tensor library, which end them all.
  absl::StatusOr<std::vector<std::vector<float>>> StepTogether(std::span<Decoder* const> decoders,
                                                               std::span<const int32_t> tokens);

 private:
  class Impl;
  explicit LanguageModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Threads of every later computation (tensor library and BLAS; all cores when less than
// 1), and allocator settings that keep large tensors from going back to the kernel.
// Process-wide.
void SetModelThreads(int num_threads);

}  // namespace braid

#endif  // BRAID_MODEL_LANGUAGE_MODEL_H_
