#include "evaluation/segment_text.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/router_input.h"
#include "model/config/document_config.h"
#include "model/config/model_config.h"
#include "model/config/segment_starts.h"

namespace braid {
namespace {

constexpr int kShownCharacters = 200;

// Returns the tokens of sequence `b`, including the last one, which occurs only as a target.
std::vector<int32_t> TokensOf(const Batch& batch, int64_t b) {
  const int64_t length = static_cast<int64_t>(batch.inputs.size()) / batch.batch_size;
  const auto first = batch.inputs.begin() + b * length;
  std::vector<int32_t> tokens(first, first + batch.lengths[b]);
  if (batch.lengths[b] > 0) tokens.push_back(batch.targets[b * length + batch.lengths[b] - 1]);
  return tokens;
}

// Returns the input of a decision that used `segment` of the only sequence of `batch`.
RouterInput LookAt(const v1::ModelConfig& config, int32_t segment, const Batch& batch) {
  const bool by_position = RoutesTokens(config.routing()) || CutsAtDocuments(config.routing());
  const int64_t decision = by_position ? segment : segment + 1;
  SegmentStarts segments(config);
  segments.Append(std::span(batch.inputs).first(batch.lengths[0]));
  return *RouterInputOf(config, decision, segments.starts());
}

}  // namespace

std::string CutText(std::string_view text, int characters) {
  const size_t end = CharacterOffset(text, characters);
  return end == text.size() ? std::string(text) : std::string(text.substr(0, end)) + "\xE2\x80\xA6";
}

SegmentTexts::SegmentTexts(const v1::ModelConfig& resolved, int32_t eos,
                           std::span<const HeldoutDomain> domains, Decode decode)
    : config_(resolved),
      eos_(eos),
      domains_(domains),
      decode_(std::move(decode)),
      ended_(domains.size(), std::vector<int64_t>(1)) {}

void SegmentTexts::CountDocuments(int domain, const Batch& batch) {
  std::vector<int64_t>& ended = ended_[domain];
  for (int64_t b = 0; b < batch.batch_size; ++b) {
    ended.push_back(ended.back() + std::ranges::count(TokensOf(batch, b), eos_));
  }
}

absl::StatusOr<v1::ExpertText> SegmentTexts::Describe(const TopActivatingSegment& segment) const {
  const HeldoutDomain& domain = domains_[segment.domain];
  ASSIGN_OR_RETURN(const Batch batch, domain.windows.Load(std::vector<int64_t>{segment.window}));
  const std::vector<int32_t> tokens = TokensOf(batch, 0);
  const RouterInput input = LookAt(config_, segment.segment, batch);
  const auto begin = tokens.begin() + input.begin;
  const auto end = tokens.begin() + std::min(input.end, batch.lengths[0]);
  v1::ExpertText text;
  text.set_domain(domain.name);
  text.set_window(segment.window);
  text.set_segment(segment.segment);
  text.set_weight(segment.weight);
  text.set_text(CutText(decode_(std::span(begin, end)), kShownCharacters));
  text.set_document_number(ended_[segment.domain][segment.window] +
                           std::count(tokens.begin(), begin, eos_));
  return text;
}

}  // namespace braid
