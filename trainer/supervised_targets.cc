#include "trainer/supervised_targets.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// Sets first_visible [L] of one sequence. Tokens after the last example see only each other.
void FillVisible(std::span<const SupervisedSpan> spans, std::span<int32_t> first_visible) {
  const auto length = static_cast<int32_t>(first_visible.size());
  std::ranges::fill(first_visible, 0);
  for (size_t i = 0; i < spans.size(); ++i) {
    const int32_t next = i + 1 < spans.size() ? spans[i + 1].begin : spans[i].end;
    // Spans count tokens, and the last token of a full instance is a target but not an input.
    for (int32_t t = spans[i].begin; t < std::min(next, length); ++t) {
      first_visible[t] = spans[i].begin;
    }
  }
  for (int32_t t = spans.back().end; t < length; ++t) first_visible[t] = spans.back().end;
}

}  // namespace

absl::StatusOr<SupervisedTargets> SupervisedTargets::Open(const std::filesystem::path& spans_file,
                                                          const DataLoader& loader, bool alone,
                                                          const v1::ModelConfig& model) {
  SupervisedTargets targets;
  ASSIGN_OR_RETURN(targets.spans_, ReadSpans(spans_file, loader.dataset()));
  if (model.has_label_head()) {
    targets.regression_ = model.label_head().regression();
    ASSIGN_OR_RETURN(targets.labels_, ReadLabels(LabelsPath(spans_file), std::ssize(targets.spans_),
                                                 model.label_head().classes_size()));
  }
  size_t next = 0;
  for (int64_t instance = 0; instance < loader.num_instances(); ++instance) {
    targets.first_.push_back(next);
    const size_t first = next;
    while (next < targets.spans_.size() && targets.spans_[next].instance == instance) ++next;
    if (next == first) {
      return absl::DataLossError(absl::StrCat(spans_file.string(), ": instance ", instance,
                                              " has no answer, expected at least one; prepare the "
                                              "dataset again"));
    }
    if (alone && targets.spans_[next - 1].begin != targets.spans_[first].begin) {
      return absl::InvalidArgumentError(absl::StrCat(
          spans_file.string(), ": instance ", instance,
          " has several examples, expected one for a model whose router looks at other tokens; "
          "prepare the dataset for this model"));
    }
  }
  targets.first_.push_back(next);
  return targets;
}

std::span<const SupervisedSpan> SupervisedTargets::AnswersOf(int64_t instance) const {
  BRAID_CHECK(0 <= instance && instance + 1 < std::ssize(first_)) << instance;
  return std::span(spans_).subspan(first_[instance], first_[instance + 1] - first_[instance]);
}

void SupervisedTargets::Apply(int64_t instance, int64_t sequence, Batch* batch) const {
  const std::span spans = AnswersOf(instance);
  const auto length = static_cast<int64_t>(batch->inputs.size()) / batch->batch_size;
  batch->first_visible.resize(batch->inputs.size());
  FillVisible(spans, std::span(batch->first_visible).subspan(sequence * length, length));
  const std::span targets = std::span(batch->targets).subspan(sequence * length, length);
  // Targets are the tokens after the inputs: target t is token t + 1.
  int64_t counted = 0, t = 0;
  for (const SupervisedSpan& span : spans) {
    for (; t < span.answer_begin - 1; ++t) targets[t] = -1;
    counted += span.end - 1 - t;
    t = span.end - 1;
  }
  batch->lengths[sequence] = t;  // then comes padding
  for (; t < length; ++t) targets[t] = -1;
  batch->num_targets += counted - batch->target_counts[sequence];
  batch->target_counts[sequence] = counted;
  if (!labels_.empty()) ApplyLabels(spans, sequence * length, batch);
}

// The span of a label is the one token after its prompt. Replaces that token, which is the target
// at position `begin` + its place - 1.
void SupervisedTargets::ApplyLabels(std::span<const SupervisedSpan> spans, int64_t begin,
                                    Batch* batch) const {
  if (regression_) batch->numbers.resize(batch->targets.size());
  for (const SupervisedSpan& span : spans) {
    const float label = labels_[static_cast<size_t>(&span - spans_.data())];
    const auto at = static_cast<size_t>(begin + span.answer_begin - 1);
    batch->targets[at] = regression_ ? 0 : static_cast<int32_t>(label);
    if (regression_) batch->numbers[at] = label;
  }
}

}  // namespace braid
