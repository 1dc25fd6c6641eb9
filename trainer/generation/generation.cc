#include "trainer/generation/generation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "formats/tokenizer.h"
#include "trainer/generation/prompt.h"
#include "trainer/generation/sampler.h"
#include "trainer/generation/text_stream.h"
#include "trainer/model/language_model.h"
#include "trainer/model_path.h"
#include "trainer/splitmix.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

constexpr int32_t kDefaultMaxTokens = 128;

absl::StatusOr<v1::GenerateRequest> Resolve(v1::GenerateRequest request) {
  if (request.max_tokens() == 0) request.set_max_tokens(kDefaultMaxTokens);
  if (request.top_p() == 0) request.set_top_p(1);
  if (request.num_threads() == 0) {
    request.set_num_threads(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  }
  if (request.max_tokens() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens: got ", request.max_tokens(), ", expected at least 1"));
  }
  if (!(request.temperature() >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature: got ", request.temperature(), ", expected at least 0"));
  }
  if (!(request.top_p() > 0 && request.top_p() <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_p: got ", request.top_p(), ", expected more than 0 and at most 1"));
  }
  return request;
}

absl::Status CheckFits(size_t prompt_tokens, const v1::ModelConfig& model,
                       const Tokenizer& tokenizer) {
  if (tokenizer.vocab_size() != model.vocab_size()) {
    return absl::DataLossError(absl::StrCat("the checkpoint's tokenizer has ",
                                            tokenizer.vocab_size(), " pieces, its model ",
                                            model.vocab_size()));
  }
  const size_t context = static_cast<size_t>(model.sequence_length());
  if (prompt_tokens <= context) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("prompt: got ", prompt_tokens,
                                                 " tokens, expected at most ", context,
                                                 " (the model's sequence_length)"));
}

// Emits what the tokens so far say, and counts.
class Stream {
 public:
  Stream(const Tokenizer& tokenizer, std::vector<int32_t> prompt,
         const std::function<void(const v1::GenerateEvent&)>& emit)
      : tokenizer_(tokenizer),
        tokens_(std::move(prompt)),
        text_(tokenizer.Decode(tokens_).size()),
        emit_(emit) {}

  void Add(int32_t token) {
    tokens_.push_back(token);
    event_.set_num_tokens(event_.num_tokens() + 1);
    event_.set_text(text_.Next(tokenizer_.Decode(tokens_)));
    if (!event_.text().empty()) emit_(event_);
  }

  void Finish() {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    event_.set_text(text_.Finish(tokenizer_.Decode(tokens_)));
    event_.set_done(true);
    event_.set_tokens_per_second(event_.num_tokens() / std::max(elapsed.count(), 1e-9));
    emit_(event_);
  }

  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int32_t num_sampled() const { return event_.num_tokens(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> tokens_;
  TextStream text_;
  const std::function<void(const v1::GenerateEvent&)>& emit_;
  v1::GenerateEvent event_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

absl::Status Sample(const v1::GenerateRequest& request, int64_t context, int32_t eos,
                    Decoder& decoder, Stream& stream) {
  ASSIGN_OR_RETURN(std::vector<float> logits, decoder.Prefill(stream.tokens()));
  while (true) {
    const uint64_t bits = Mix64(request.seed(), static_cast<uint64_t>(stream.num_sampled()));
    const int32_t token =
        SampleToken(logits, request.temperature(), request.top_p(), UnitInterval(bits));
    if (token == eos) break;
    const bool full = stream.num_tokens() >= context;
    stream.Add(token);
    if (full || stream.num_sampled() >= request.max_tokens()) break;
    ASSIGN_OR_RETURN(logits, decoder.Step(token));
  }
  stream.Finish();
  return absl::OkStatus();
}

}  // namespace

absl::Status Generate(const v1::GenerateRequest& asked,
                      const std::function<void(const v1::GenerateEvent&)>& emit) {
  ASSIGN_OR_RETURN(const v1::GenerateRequest request, Resolve(asked));
  SetModelThreads(request.num_threads());
  ASSIGN_OR_RETURN(const ModelPath path, FindModel(request.model(), std::cerr));
  ASSIGN_OR_RETURN(const auto model, LoadModel(path.checkpoint));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(path.checkpoint / "tokenizer.model"));
  std::vector<int32_t> prompt = PromptTokens(*tokenizer, request.prompt());
  RETURN_IF_ERROR(CheckFits(prompt.size(), model->config(), *tokenizer));
  const MergeMode mode =
      request.routing() == v1::SEGMENT_ROUTING ? MergeMode::kSegment : MergeMode::kPrompt;
  const std::unique_ptr<Decoder> decoder = model->NewDecoder(mode);
  Stream stream(*tokenizer, std::move(prompt), emit);
  return Sample(request, model->config().sequence_length(), tokenizer->eos_id(), *decoder, stream);
}

}  // namespace braid
