#include "model/batch_checks.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/head_config.h"

namespace braid {
namespace {

absl::Status CheckIds(const char* name, std::span<const int32_t> ids, int32_t low, int32_t high) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < low || ids[i] > high) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, "[", i, "]: got ", ids[i], ", expected ", low, " to ", high));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSequences(const v1::ModelConfig& config, std::span<const int32_t> inputs,
                            int64_t batch_size) {
  const auto size = static_cast<int64_t>(inputs.size());
  if (batch_size < 1 || size < batch_size || size % batch_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inputs: ", size, " tokens cannot be divided into ", batch_size, " sequences"));
  }
  if (size / batch_size > config.sequence_length()) {
    return absl::InvalidArgumentError(absl::StrCat("inputs: sequences of ", size / batch_size,
                                                   " tokens, expected at most sequence_length ",
                                                   config.sequence_length()));
  }
  return CheckIds("inputs", inputs, 0, config.vocab_size() - 1);
}

absl::Status CheckBatch(const v1::ModelConfig& config, std::span<const int32_t> inputs,
                        std::span<const int32_t> targets, std::span<const float> numbers,
                        int64_t batch_size) {
  RETURN_IF_ERROR(CheckSequences(config, inputs, batch_size));
  if (targets.size() != inputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "targets: got ", targets.size(), ", expected as many as inputs, ", inputs.size()));
  }
  const size_t wanted = config.label_head().regression() ? inputs.size() : 0;
  if (numbers.size() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("numbers: got ", numbers.size(), ", expected ", wanted));
  }
  return CheckIds("targets", targets, -1, static_cast<int32_t>(HeadWidth(config)) - 1);
}

absl::Status CheckInstances(std::span<const int64_t> instances, int64_t batch_size) {
  if (instances.empty() || std::ssize(instances) == batch_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("instances: got ", instances.size(),
                                                 ", expected as many as sequences, ", batch_size));
}

absl::Status CheckVisible(std::span<const int32_t> first_visible, size_t num_tokens,
                          int64_t batch_size) {
  if (first_visible.empty()) return absl::OkStatus();
  if (first_visible.size() != num_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("first_visible: got ", first_visible.size(),
                                                   ", expected as many as inputs, ", num_tokens));
  }
  const auto length = static_cast<int64_t>(num_tokens) / batch_size;
  for (size_t i = 0; i < num_tokens; ++i) {
    const int64_t position = static_cast<int64_t>(i) % length;
    // Must not decrease: attention skips the keys before the first one that a block's first query
    // sees.
    const int32_t least = position == 0 ? 0 : first_visible[i - 1];
    if (first_visible[i] >= least && first_visible[i] <= position) continue;
    return absl::InvalidArgumentError(absl::StrCat("first_visible[", i, "]: got ", first_visible[i],
                                                   ", expected ", least, " to ", position));
  }
  return absl::OkStatus();
}

}  // namespace braid
