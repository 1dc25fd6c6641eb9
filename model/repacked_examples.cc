#include "model/repacked_examples.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace braid {
namespace {

struct Example {
  int64_t begin = 0, length = 0;  // positions of the batch
};

// Returns the examples with a wanted position, or none if attention crosses their borders.
std::vector<Example> WantedExamples(const at::Tensor& visible, const at::Tensor& wanted) {
  const at::Tensor firsts = visible.to(at::kCPU).contiguous();
  const at::Tensor flags = wanted.to(at::kCPU).contiguous();
  const int32_t* const first = firsts.data_ptr<int32_t>();
  const bool* const flag = flags.data_ptr<bool>();
  const int64_t length = visible.size(1);
  std::vector<Example> examples;
  for (int64_t begin = 0; begin < visible.numel();) {
    if (first[begin] != begin % length) return {};
    int64_t end = begin + 1;
    while (end % length != 0 && first[end] == first[begin]) ++end;
    if (std::any_of(flag + begin, flag + end, [](bool is) { return is; })) {
      examples.push_back({begin, end - begin});
    }
    begin = end;
  }
  return examples;
}

// Returns the sequence of each example, the first one with room.
std::vector<std::vector<Example>> FirstFit(const std::vector<Example>& examples, int64_t room) {
  std::vector<std::vector<Example>> sequences;
  std::vector<int64_t> used;
  for (const Example& example : examples) {
    const auto place =
        std::ranges::find_if(used, [&](int64_t taken) { return taken + example.length <= room; });
    const size_t index = place - used.begin();
    if (index == used.size()) {
      sequences.emplace_back();
      used.push_back(0);
    }
    sequences[index].push_back(example);
    used[index] += example.length;
  }
  return sequences;
}

at::Tensor Long(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(at::ArrayRef<int64_t>(values), at::kLong).to(device);
}

}  // namespace

RepackedExamples WholeSequences(const at::Tensor& sequences, const at::Tensor& visible,
                                int64_t length) {
  const at::Tensor source =
      (sequences.unsqueeze(1) * length + at::arange(length, sequences.options())).flatten();
  return {source, at::arange(source.numel(), sequences.options()), source,
          visible.defined() ? visible.index_select(0, sequences) : at::Tensor()};
}

std::optional<RepackedExamples> RepackExamples(const at::Tensor& visible,
                                               const at::Tensor& wanted) {
  const std::vector<Example> examples = WantedExamples(visible, wanted);
  const std::vector<std::vector<Example>> sequences = FirstFit(examples, visible.size(1));
  int64_t longest = 0;
  for (const std::vector<Example>& sequence : sequences) {
    int64_t length = 0;
    for (const Example& example : sequence) length += example.length;
    longest = std::max(longest, length);
  }
  const auto count = static_cast<int64_t>(sequences.size());
  if (count == 0 || count * longest >= visible.numel()) return std::nullopt;
  std::vector<int64_t> source(count * longest, 0), places, positions;
  std::vector<int32_t> firsts(source.size());
  for (int64_t s = 0; s < count; ++s) {
    int64_t at = 0;
    for (const Example& example : sequences[s]) {
      const int64_t first = at;
      for (int64_t i = 0; i < example.length; ++i, ++at) {
        places.push_back(s * longest + at);
        positions.push_back(example.begin + i);
        source[places.back()] = positions.back();
        firsts[places.back()] = static_cast<int32_t>(first);
      }
    }
    // Padding sees itself alone.
    for (; at < longest; ++at) firsts[s * longest + at] = static_cast<int32_t>(at);
  }
  const at::Device device = visible.device();
  return RepackedExamples{
      Long(source, device), Long(places, device), Long(positions, device),
      at::tensor(at::ArrayRef<int32_t>(firsts), at::kInt).view({count, longest}).to(device)};
}

}  // namespace braid
