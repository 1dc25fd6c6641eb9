#include "pipeline/ordering/partitioned_order.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace braid {
namespace {

// The documents of every part, ascending, part after part (a counting sort).
struct Members {
  Members(std::span<const uint32_t> partition_of, int64_t num_partitions)
      : starts(num_partitions + 1, 0), places(partition_of.size()) {
    for (uint32_t part : partition_of) {
      if (part == kNoPartition) continue;
      BRAID_CHECK(part < num_partitions) << part << " of " << num_partitions;
      ++starts[part + 1];
    }
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    documents.resize(starts.back());
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (size_t i = 0; i < partition_of.size(); ++i) {
      const uint32_t part = partition_of[i];
      if (part == kNoPartition) continue;
      places[i] = static_cast<uint32_t>(next[part] - starts[part]);
      documents[next[part]++] = static_cast<uint32_t>(i);
    }
  }

  std::span<const uint32_t> of(int64_t part) const {
    return std::span(documents).subspan(starts[part], starts[part + 1] - starts[part]);
  }

  std::vector<int64_t> starts;
  std::vector<uint32_t> documents;
  std::vector<uint32_t> places;  // position of each document in its part
};

// Walks one part and appends its paths, in original document numbers, to `result`.
void WalkPart(const NeighborLists& lists, const Members& members,
              std::span<const uint32_t> partition_of, int64_t part, int num_threads,
              DocumentOrder* result) {
  const std::span<const uint32_t> documents = members.of(part);
  const auto k = static_cast<size_t>(lists.k);
  std::vector<uint32_t> ids(documents.size() * k, NeighborLists::kPadding);
  std::vector<float> scores(ids.size(), 0.0f);
  for (size_t i = 0; i < documents.size(); ++i) {
    const NeighborRow row = RowOf(lists, documents[i]);
    for (size_t j = 0; j < k; ++j) {
      const uint32_t id = row.ids[j];
      if (id == NeighborLists::kPadding || partition_of[id] != part) continue;
      ids[i * k + j] = members.places[id];
      scores[i * k + j] = row.scores[j];
    }
  }
  const DocumentOrder order =
      SimilarityOrder({lists.k, ids, scores}, static_cast<int64_t>(documents.size()), num_threads);
  const auto offset = static_cast<uint32_t>(result->order.size());
  for (uint32_t start : order.path_starts) result->path_starts.push_back(offset + start);
  for (uint32_t place : order.order) result->order.push_back(documents[place]);
}

// Joins the paths of all parts end to start into one order.
class PathJoin {
 public:
  // Takes the walks of all parts, one after another.
  PathJoin(const NeighborLists& lists, const DocumentOrder& walked)
      : lists_(lists), walked_(walked), used_(walked.path_starts.size(), false) {
    for (size_t path = 0; path < used_.size(); ++path) {
      path_of_start_.emplace(First(path), path);
      path_of_end_.emplace(Last(path), path);
    }
    FindJoints();
  }

  DocumentOrder Run() {
    DocumentOrder result;
    result.order.reserve(walked_.order.size());
    size_t next_unused = 0;
    for (std::optional<size_t> path; next_unused < used_.size();) {
      if (path) path = Follower(*path);
      if (!path) {
        while (next_unused < used_.size() && used_[next_unused]) ++next_unused;
        if (next_unused == used_.size()) break;
        path = next_unused;
        result.path_starts.push_back(static_cast<uint32_t>(result.order.size()));
      }
      used_[*path] = true;
      const auto documents = Documents(*path);
      result.order.insert(result.order.end(), documents.begin(), documents.end());
    }
    return result;
  }

 private:
  // An edge from the last document of one path to the first document of another.
  struct Joint {
    size_t from, to;
    float score;
    uint32_t document;  // the first of `to`
  };

  std::span<const uint32_t> Documents(size_t path) const {
    const size_t begin = walked_.path_starts[path];
    const size_t end =
        path + 1 < used_.size() ? walked_.path_starts[path + 1] : walked_.order.size();
    return std::span(walked_.order).subspan(begin, end - begin);
  }
  uint32_t First(size_t path) const { return Documents(path).front(); }
  uint32_t Last(size_t path) const { return Documents(path).back(); }

  // Collects all joints of the symmetrized graph: an edge is in the row of the last document or in
  // that of the first. They are sorted by path, descending score and document.
  void FindJoints() {
    for (size_t path = 0; path < used_.size(); ++path) {
      const NeighborRow after = RowOf(lists_, Last(path)), before = RowOf(lists_, First(path));
      for (size_t j = 0; j < after.ids.size(); ++j) {
        const auto found = path_of_start_.find(after.ids[j]);
        if (found != path_of_start_.end()) Add(path, found->second, after.scores[j]);
        const auto back = path_of_end_.find(before.ids[j]);
        if (back != path_of_end_.end()) Add(back->second, path, before.scores[j]);
      }
    }
    std::ranges::sort(joints_, [](const Joint& a, const Joint& b) {
      if (a.from != b.from) return a.from < b.from;
      return a.score != b.score ? a.score > b.score : a.document < b.document;
    });
  }

  void Add(size_t from, size_t to, float score) {
    if (from == to || !(score == score)) return;  // NaN joins nothing
    joints_.push_back({from, to, score, First(to)});
  }

  // Returns the unused path that the best joint of `path` leads to, if any.
  std::optional<size_t> Follower(size_t path) const {
    auto joint = std::ranges::lower_bound(joints_, path, {}, &Joint::from);
    while (joint != joints_.end() && joint->from == path && used_[joint->to]) ++joint;
    if (joint == joints_.end() || joint->from != path) return std::nullopt;
    return joint->to;
  }

  const NeighborLists& lists_;
  const DocumentOrder& walked_;
  std::vector<bool> used_;
  std::unordered_map<uint32_t, size_t> path_of_start_, path_of_end_;
  std::vector<Joint> joints_;
};

}  // namespace

DocumentOrder PartitionedOrder(const NeighborLists& lists, int64_t num_documents,
                               std::span<const uint32_t> partition_of, int64_t num_partitions,
                               int num_threads) {
  BRAID_CHECK(static_cast<int64_t>(partition_of.size()) == num_documents) << partition_of.size();
  const Members members(partition_of, num_partitions);
  DocumentOrder walked;
  walked.order.reserve(members.documents.size());
  for (int64_t part = 0; part < num_partitions; ++part) {
    WalkPart(lists, members, partition_of, part, num_threads, &walked);
  }
  return num_partitions == 1 ? walked : PathJoin(lists, walked).Run();
}

}  // namespace braid
