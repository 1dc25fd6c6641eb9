#include <faiss/Clustering.h>
#include <faiss/Index.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/document_sample.h"
#include "retrieval/faiss_call.h"

namespace braid {
namespace {

constexpr int64_t kVectorsPerList = 32;
constexpr int kFaissClusteringIterations = 8;
constexpr int64_t kVectorsPerBlock = 1024;

struct Stopped : std::exception {};

// The index with which FAISS's k-means assigns points: blocks of a fixed size and one BLAS thread
// in each worker, so the centroids do not depend on the number of threads.
class BlockwiseAssignment final : public faiss::Index {
 public:
  BlockwiseAssignment(int32_t dimension, const StopCheck& check)
      : Index(dimension, faiss::METRIC_INNER_PRODUCT), check_(check) {}

  const absl::Status& status() const { return status_; }

  void add(int64_t n, const float* x) override {
    centroids_.insert(centroids_.end(), x, x + n * d);
    ntotal += n;
  }

  void reset() override {
    centroids_.clear();
    ntotal = 0;
  }

  // k is 1; k-means uses the distances only to report their sum.
  void search(int64_t n, const float* x, int64_t, float* distances, int64_t* labels,
              const faiss::SearchParameters*) const override {
    SetFaissThreads(1);
    std::fill_n(distances, n, 0.0f);
    status_ = ParallelForUntil(
        n, kVectorsPerBlock, check_, [&](int64_t begin, int64_t end, const std::atomic<bool>&) {
          std::vector<uint32_t> nearest(static_cast<size_t>(end - begin));
          const std::span rows(x + begin * d, static_cast<size_t>((end - begin) * d));
          NearestCentroids(centroids_, rows, d, 1, nearest);
          std::copy(nearest.begin(), nearest.end(), labels + begin);
        });
    if (!status_.ok()) throw Stopped();
    SetFaissThreads(RetrievalThreads());
  }

 private:
  const StopCheck& check_;
  std::vector<float> centroids_;
  mutable absl::Status status_;
};

faiss::ClusteringParameters Parameters(int num_iterations) {
  faiss::ClusteringParameters parameters;
  parameters.niter = num_iterations;
  parameters.spherical = true;
  // Disables warnings on standard error and subsampling: the points are a sample already.
  parameters.min_points_per_centroid = 1;
  parameters.max_points_per_centroid = std::numeric_limits<int>::max() / 2;
  return parameters;
}

}  // namespace

absl::StatusOr<std::vector<float>> ClusterPoints(std::span<const float> points, int32_t d,
                                                 const CentroidStart& start,
                                                 const StopCheck& check) {
  const int64_t k = start.num_centroids;
  faiss::Clustering clustering(d, static_cast<int>(k), Parameters(start.num_iterations));
  clustering.centroids = start.centroids;
  BlockwiseAssignment assignment(d, check);
  const absl::Status trained = FaissCall(
      absl::StatusCode::kInternal, absl::StrCat("training ", k, " centroids of ", d, " dimensions"),
      RetrievalThreads(), [&] {
        clustering.train(static_cast<int64_t>(points.size()) / d, points.data(), assignment);
      });
  RETURN_IF_ERROR(assignment.status());
  RETURN_IF_ERROR(trained);
  return std::move(clustering.centroids);
}

absl::StatusOr<std::vector<float>> TrainCentroids(const DocumentVectors& vectors, int64_t num_lists,
                                                  uint64_t seed, const StopCheck& check) {
  if (num_lists < 1 || vectors.n < num_lists) {
    return absl::InvalidArgumentError(absl::StrCat(
        "neighbor graph: got ", num_lists, " lists for ", vectors.n,
        " documents, expected 1 to the number of documents; lower the number in neighbors.index"));
  }
  std::vector<float> sample;
  GatherRows(vectors, SampleDocuments(vectors.n, num_lists * kVectorsPerList, seed), &sample);
  return ClusterPoints(sample, vectors.d,
                       {.num_centroids = num_lists, .num_iterations = kFaissClusteringIterations},
                       check);
}

}  // namespace braid
