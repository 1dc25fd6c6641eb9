// The transportation problem of balanced clusters. Points are added one by one. The cost of moving
// a point from its cluster to another, plus the difference of the clusters' prices, is never
// negative, so Dijkstra's algorithm finds the cheapest sequence of moves that ends in a cluster
// with room. The cheapest move between two clusters is on top of a heap of the first cluster's
// points.
#include <algorithm>
#include <limits>
#include <queue>

#include "base/check.h"
#include "conversion/balanced_clusters.h"

namespace braid {
namespace {

class Assignment {
 public:
  Assignment(std::span<const float> costs, int64_t num_points, int32_t num_clusters,
             std::vector<double>* prices)
      : costs_(costs),
        num_clusters_(num_clusters),
        capacity_(num_points / num_clusters),
        prices_(*prices),
        cluster_of_(num_points, -1),
        sizes_(num_clusters, 0),
        moves_(static_cast<size_t>(num_clusters) * num_clusters),
        distance_(num_clusters),
        reached_by_(num_clusters),
        is_final_(num_clusters) {}

  void Add(int32_t point) {
    const int32_t end = FindPath(point);
    for (int32_t cluster = 0; cluster < num_clusters_; ++cluster) {
      if (is_final_[cluster]) prices_[cluster] += distance_[end] - distance_[cluster];
    }
    int32_t cluster = end;
    for (; reached_by_[cluster].from >= 0; cluster = reached_by_[cluster].from) {
      Put(reached_by_[cluster].point, cluster);
    }
    Put(point, cluster);
    ++sizes_[end];
  }

  std::vector<int32_t> Take() { return std::move(cluster_of_); }

 private:
  struct Move {
    double cost;
    int32_t point;
    bool operator>(const Move& other) const {
      return cost != other.cost ? cost > other.cost : point > other.point;
    }
  };
  using Moves = std::priority_queue<Move, std::vector<Move>, std::greater<>>;
  // How the search reached a cluster: by a point that leaves cluster `from`; -1: by the new point.
  struct Step {
    int32_t from;
    int32_t point;
  };

  double Cost(int32_t point, int32_t cluster) const {
    return costs_[static_cast<size_t>(point) * num_clusters_ + cluster];
  }

  // Returns the nearest cluster with room. All clusters that are nearer become final.
  int32_t FindPath(int32_t point) {
    for (int32_t cluster = 0; cluster < num_clusters_; ++cluster) {
      distance_[cluster] = Cost(point, cluster) + prices_[cluster];
      reached_by_[cluster] = {-1, point};
      is_final_[cluster] = false;
    }
    while (true) {
      const int32_t nearest = Nearest();
      if (sizes_[nearest] < capacity_) return nearest;
      is_final_[nearest] = true;
      Relax(nearest);
    }
  }

  int32_t Nearest() const {
    int32_t nearest = -1;
    for (int32_t cluster = 0; cluster < num_clusters_; ++cluster) {
      if (is_final_[cluster]) continue;
      if (nearest < 0 || distance_[cluster] < distance_[nearest]) nearest = cluster;
    }
    BRAID_CHECK(nearest >= 0);
    return nearest;
  }

  void Relax(int32_t from) {
    for (int32_t to = 0; to < num_clusters_; ++to) {
      if (is_final_[to]) continue;
      const Move& move = Cheapest(from, to);
      // Rounding may make the difference slightly negative.
      const double step = std::max(move.cost + prices_[to] - prices_[from], 0.0);
      if (distance_[from] + step >= distance_[to]) continue;
      distance_[to] = distance_[from] + step;
      reached_by_[to] = {from, move.point};
    }
  }

  // The cheapest move between two clusters, the first of which is full. Entries of points that have
  // left it are discarded here.
  const Move& Cheapest(int32_t from, int32_t to) {
    Moves& moves = moves_[static_cast<size_t>(from) * num_clusters_ + to];
    while (cluster_of_[moves.top().point] != from) moves.pop();
    return moves.top();
  }

  void Put(int32_t point, int32_t cluster) {
    cluster_of_[point] = cluster;
    for (int32_t to = 0; to < num_clusters_; ++to) {
      if (to == cluster) continue;
      moves_[static_cast<size_t>(cluster) * num_clusters_ + to].push(
          {Cost(point, to) - Cost(point, cluster), point});
    }
  }

  const std::span<const float> costs_;
  const int32_t num_clusters_;
  const int64_t capacity_;
  std::vector<double>& prices_;
  std::vector<int32_t> cluster_of_;
  std::vector<int64_t> sizes_;
  std::vector<Moves> moves_;  // [num_clusters, num_clusters]
  // State of the current search, [num_clusters] each.
  std::vector<double> distance_;
  std::vector<Step> reached_by_;
  std::vector<char> is_final_;
};

}  // namespace

std::vector<int32_t> AssignBalanced(std::span<const float> costs, int64_t num_points,
                                    int32_t num_clusters, std::vector<double>* prices) {
  BRAID_CHECK(num_clusters > 0 && num_points % num_clusters == 0);
  BRAID_CHECK(std::ssize(costs) == num_points * num_clusters);
  BRAID_CHECK(std::ssize(*prices) == num_clusters);
  Assignment assignment(costs, num_points, num_clusters, prices);
  for (int32_t point = 0; point < num_points; ++point) assignment.Add(point);
  return assignment.Take();
}

}  // namespace braid
