#include "model/routing/document_segments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

namespace braid {
namespace {

// One segment: positions [begin, begin + length) of the batch.
struct BatchSegment {
  int64_t begin = 0, length = 0;
  bool first = false;
};

std::vector<BatchSegment> ListSegments(const at::Tensor& starts, const v1::RoutingConfig& config) {
  const at::Tensor host = starts.to(at::kCPU, at::kLong).contiguous();
  const int64_t* const start = host.data_ptr<int64_t>();
  const int64_t length = host.size(1);
  std::vector<BatchSegment> segments;
  for (int64_t i = 0; i < host.numel(); ++i) {
    const int64_t t = i % length;
    const bool document = t == 0 || start[i] != start[i - 1];
    if (document || segments.back().length == config.segment_length()) {
      const bool resets = document && config.reset_at_documents();
      segments.push_back({i, 0, t == 0 || resets});
    }
    ++segments.back().length;
  }
  return segments;
}

// Returns segment_length, halved while a segment of `length` fits into it.
int64_t Capacity(int64_t length, int64_t segment_length) {
  int64_t capacity = segment_length;
  while ((capacity + 1) / 2 >= length && capacity > 1) capacity = (capacity + 1) / 2;
  return capacity;
}

at::Tensor Indices(const std::vector<int64_t>& values) {
  return at::tensor(at::ArrayRef<int64_t>(values), at::kLong);
}

}  // namespace

DocumentSegments CutAtDocuments(const at::Tensor& starts, const v1::RoutingConfig& config) {
  const std::vector<BatchSegment> all = ListSegments(starts, config);
  const int64_t positions = starts.numel();
  std::map<int64_t, std::vector<int64_t>> by_capacity;
  std::vector<int64_t> segment_of(positions), lengths, before, first;
  for (size_t n = 0; n < all.size(); ++n) {
    const auto index = static_cast<int64_t>(n);
    std::fill_n(segment_of.begin() + all[n].begin, all[n].length, index);
    by_capacity[Capacity(all[n].length, config.segment_length())].push_back(index);
    lengths.push_back(all[n].length);
    before.push_back(all[n].first ? index : index - 1);
    first.push_back(all[n].first ? 1 : 0);
  }
  DocumentSegments result;
  std::vector<int64_t> order(all.size()), places(positions);
  int64_t place = 0, row = 0;
  for (const auto& [capacity, members] : by_capacity) {
    std::vector<int64_t> rows;
    for (const int64_t n : members) {
      order[n] = place++;
      for (int64_t t = 0; t < capacity; ++t, ++row) {
        const bool real = t < all[n].length;
        if (real) places[all[n].begin + t] = row;
        rows.push_back(real ? all[n].begin + t : positions);
      }
    }
    result.groups.push_back(
        {capacity, Indices(members).to(starts.device()), Indices(rows).to(starts.device())});
  }
  result.order = Indices(order).to(starts.device());
  result.places = Indices(places).to(starts.device());
  result.segments = Indices(segment_of).to(starts.device());
  result.lengths = Indices(lengths).unsqueeze(1).to(starts.device());
  result.before = Indices(before).to(starts.device());
  result.first = Indices(first).unsqueeze(1).eq(1).to(starts.device());
  return result;
}

at::Tensor GatherSegments(const at::Tensor& x, const DocumentSegments::Group& group) {
  const at::Tensor padded = at::constant_pad_nd(x, {0, 0, 0, 1});
  return padded.index_select(0, group.positions).view({-1, group.length, x.size(1)});
}

at::Tensor SegmentMeans(const at::Tensor& x, const DocumentSegments& segments) {
  std::vector<at::Tensor> sums;
  for (const DocumentSegments::Group& group : segments.groups) {
    sums.push_back(GatherSegments(x, group).sum(1));
  }
  return at::cat(sums).index_select(0, segments.order) / segments.lengths;
}

}  // namespace braid
