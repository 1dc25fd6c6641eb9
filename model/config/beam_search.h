// Beam search: finds a likely continuation of a sequence.
//
// Every beam is a decoder with a continuation and its log probability. A step extends each beam by
// each token and keeps the most likely extensions, one per beam. An extension that ends the text
// leaves the search and takes its beam with it (arXiv 1409.3215, section 3.2), so that one beam is
// greedy decoding, and as many beams as there are texts are exhaustive search. The result is the
// text that maximizes log probability / length^length_penalty, where the token that ends a text
// counts. Ties go to the beam that is more likely, then to the lower token.
//
//   BeamSearch search(options, *prefilled, prompt, logits);
//   while (!search.done()) RETURN_IF_ERROR(search.Advance());
//   return search.best().tokens;
#ifndef BRAID_MODEL_CONFIG_BEAM_SEARCH_H_
#define BRAID_MODEL_CONFIG_BEAM_SEARCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/config/decoder.h"

namespace braid {

// The most beams that a request may name: each keeps a key-value cache of the whole context.
inline constexpr int kMaxBeams = 32;

// Runs Decoder::Step on several decoders, as LanguageModel::StepTogether.
using StepTogetherFunction = std::function<absl::StatusOr<std::vector<std::vector<float>>>(
    std::span<Decoder* const>, std::span<const int32_t>)>;

struct BeamOptions {
  int num_beams = 1;
  double length_penalty = 1;
  // n: a token that completes a sequence of n tokens which the prompt or the text already has is
  // left out, unless it ends the text. 0 allows all.
  int no_repeat_ngram = 0;
  // Tokens that end a text.
  std::vector<int32_t> ends;
  int64_t max_tokens = 1;
  // Number of leading logits that are tokens; 0 for all.
  int32_t vocab_size = 0;
  // Returns whether a text that was not ended by a token of `ends` ends with its last token. Null
  // for never.
  std::function<bool(std::span<const int32_t>)> is_complete = nullptr;
  // Null to step the decoders one by one.
  StepTogetherFunction step = nullptr;
};

// A text of the search.
struct BeamText {
  // Without the token that ends it.
  std::vector<int32_t> tokens;
  // Sum of ln p, including that of the token that ends it.
  double log_prob = 0;
  double score = 0;
};

// Sets the logits of tokens that would complete an n-gram which `sequence` already has to minus
// infinity, except those of `exempt`. Does nothing when n is 0.
void BanRepeatedNgrams(std::span<const int32_t> sequence, int n, std::span<const int32_t> exempt,
                       std::span<float> logits);

class BeamSearch {
 public:
  // `prefilled` has read `prompt` and returned `logits`; it is only copied. Requires 1 <= num_beams
  // and 1 <= max_tokens.
  BeamSearch(BeamOptions options, const Decoder& prefilled, std::span<const int32_t> prompt,
             std::vector<float> logits);

  // Extends every beam by a token. DataLoss when logits are not finite; otherwise the errors of the
  // decoders, after which the search cannot continue. Requires !done().
  absl::Status Advance();

  bool done() const { return done_; }
  // Number of tokens of the texts in progress.
  int64_t length() const { return length_; }
  // Requires done().
  const BeamText& best() const { return *best_; }

 private:
  struct Beam {
    std::unique_ptr<Decoder> decoder;  // null until its first token
    std::vector<int32_t> tokens;
    double log_prob = 0;
    std::vector<float> logits;  // for the next token
  };
  // An extension of a beam by a token.
  struct Candidate {
    double log_prob = 0;
    size_t beam = 0;
    int32_t token = 0;
  };

  absl::StatusOr<std::vector<Candidate>> Candidates() const;
  absl::Status Extend(std::vector<Candidate> kept);
  absl::Status StepAll();
  void Finish(BeamText text, int64_t length);

  const BeamOptions options_;
  const Decoder& prefilled_;
  const std::vector<int32_t> prompt_;
  std::vector<Beam> beams_;
  size_t width_;  // beams that may be in progress
  int64_t length_ = 0;
  bool done_ = false;
  std::optional<BeamText> best_;
};

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_BEAM_SEARCH_H_
