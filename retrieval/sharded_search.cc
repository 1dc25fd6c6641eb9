#include "retrieval/sharded_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "retrieval/best_scores.h"
#include "retrieval/neighbor_ranking.h"
#include "retrieval/neighbor_settings.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kDropDeadline{5000};

// Records the first error of several threads, which then all stop.
class FirstFailure {
 public:
  void Update(const absl::Status& status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    status_.Update(status);
    failed_ = true;
  }
  bool failed() const { return failed_; }
  absl::Status status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
};

// Runs body(i, stop) for every i below n on up to `num_threads` threads; the first error, or that
// of `check`, stops the others.
absl::Status ForEach(
    int64_t n, int64_t num_threads, const StopCheck& check,
    const std::function<absl::Status(int64_t, const NeighborClient::Stop&)>& body) {
  FirstFailure failure;
  const auto run = [&](int64_t i, int64_t, const std::atomic<bool>& stopping) {
    const NeighborClient::Stop stop = [&] { return stopping || failure.failed(); };
    if (!stop()) failure.Update(body(i, stop));
  };
  RETURN_IF_ERROR(ParallelForUntil(n, 1, check, run, num_threads));
  return failure.status();
}

// Returns the error for a shard that its server lost as often as it was filled. UNAVAILABLE, not
// the code of `cause`: the server is at fault, so a job keeps its results and tries again.
absl::Status LostEachTime(const absl::Status& cause, int times) {
  return absl::UnavailableError(
      absl::StrCat(cause.message(), " (after it was filled ", times, " times)"));
}

}  // namespace

ShardRange ShardRange::Of(int64_t n, int64_t num_shards, int64_t i) {
  constexpr int64_t kBlock = 1024;
  const int64_t unit = n >= kBlock * num_shards ? kBlock : 1;
  const int64_t num_units = (n + unit - 1) / unit;
  const auto start = [&](int64_t shard) {
    return std::min(n, num_units * shard / num_shards * unit);
  };
  return {start(i), start(i + 1)};
}

absl::StatusOr<std::unique_ptr<ShardedCorpus>> ShardedCorpus::Make(
    const std::string& name, const ShardedCorpusOptions& options) {
  if (options.addresses.empty()) {
    return absl::InvalidArgumentError(
        "got no address of a neighbor server, expected at least one HOST:PORT");
  }
  std::unique_ptr<ShardedCorpus> corpus(new ShardedCorpus(name, options));
  for (const std::string& address : options.addresses) {
    auto shard = std::make_unique<Shard>();
    ASSIGN_OR_RETURN(shard->client, NeighborClient::Make(address, options.client));
    corpus->shards_.push_back(std::move(shard));
  }
  return corpus;
}

std::string ShardedCorpus::IndexString() const {
  if (centroids_.empty()) return kExactIndex;
  return absl::StrCat("IVF", centroids_.size() / static_cast<size_t>(vectors_.d), ",Flat");
}

std::string ShardedCorpus::ShardName(int64_t i) const {
  const uint32_t lists =
      Crc32c({reinterpret_cast<const char*>(centroids_.data()), centroids_.size() * sizeof(float)});
  return absl::StrCat(name_, "-", absl::Hex(lists, absl::kZeroPad8), "-", i, "-of-",
                      shards_.size());
}

int64_t ShardedCorpus::RowsPerMessage(int64_t row_bytes) const {
  return std::max<int64_t>(1, options_.max_message_bytes / row_bytes);
}

absl::Status ShardedCorpus::Load(const DocumentVectors& vectors, std::span<const float> centroids,
                                 const StopCheck& check) {
  vectors_ = vectors;
  centroids_ = centroids;
  const auto num_shards = static_cast<int64_t>(shards_.size());
  for (int64_t i = 0; i < num_shards; ++i) {
    shards_[i]->name = ShardName(i);
    shards_[i]->range = ShardRange::Of(vectors.n, num_shards, i);
  }
  return ForEach(num_shards, num_shards, check, [&](int64_t i, const NeighborClient::Stop& stop) {
    return Fill(*shards_[i], stop);
  });
}

// Returns the shard that an earlier attempt left, complete or in part, if it fits; otherwise
// creates one, after dropping one that does not fit.
absl::StatusOr<ShardState> ShardedCorpus::FindOrCreate(const Shard& shard,
                                                       const NeighborClient::Stop& stop) const {
  const NeighborClient& client = *shard.client;
  ASSIGN_OR_RETURN(std::optional<ShardState> state, client.Describe(shard.name, stop));
  const int64_t n = shard.range.end - shard.range.begin;
  const auto fits = [&](const ShardState& found) {
    return found.dimension == vectors_.d && found.index == IndexString() &&
           (found.sealed ? found.num_vectors == n : found.num_vectors <= n);
  };
  if (state && fits(*state)) return *state;
  if (state) RETURN_IF_ERROR(client.Drop(shard.name, kDropDeadline));
  RETURN_IF_ERROR(client.Create(shard.name, vectors_.d, IndexString(), stop));
  return ShardState{.dimension = vectors_.d, .index = IndexString()};
}

absl::Status ShardedCorpus::FillOnce(const Shard& shard, const NeighborClient::Stop& stop) const {
  const NeighborClient& client = *shard.client;
  ASSIGN_OR_RETURN(const ShardState state, FindOrCreate(shard, stop));
  if (state.sealed) return absl::OkStatus();
  const int64_t d = vectors_.d, step = RowsPerMessage(d * static_cast<int64_t>(sizeof(float)) + 10);
  const auto num_lists = static_cast<int64_t>(centroids_.size()) / d;
  for (int64_t first = state.num_centroids; first < num_lists; first += step) {
    const int64_t count = std::min(step, num_lists - first);
    RETURN_IF_ERROR(
        client.SetCentroids(shard.name, first, centroids_.subspan(first * d, count * d), stop));
  }
  const int64_t n = shard.range.end - shard.range.begin;
  for (int64_t position = state.num_vectors; position < n; position += step) {
    const int64_t count = std::min(step, n - position), document = shard.range.begin + position;
    RETURN_IF_ERROR(client.Add(shard.name, position, document, count,
                               vectors_.values.subspan(document * d, count * d), stop));
  }
  return client.Seal(shard.name, stop);
}

absl::Status ShardedCorpus::Fill(const Shard& shard, const NeighborClient::Stop& stop) const {
  constexpr int kMostAttempts = 5;
  absl::Status status;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    status = FillOnce(shard, stop);
    // After a restart, a server has lost an unsealed shard or may find it damaged.
    const bool lost = absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
                      absl::IsAlreadyExists(status) || absl::IsDataLoss(status);
    if (!lost) return status;
    if (!absl::IsNotFound(status)) {
      shard.client->Drop(shard.name, kDropDeadline).IgnoreError();
    }
  }
  return LostEachTime(status, kMostAttempts);
}

absl::Status ShardedCorpus::Refill(Shard* shard, int64_t generation, const absl::Status& cause,
                                   const NeighborClient::Stop& stop) const {
  const std::lock_guard lock(shard->filling);
  if (shard->generation != generation) return absl::OkStatus();  // another thread has filled it
  if (shard->refills_in_a_row >= options_.max_refills) {
    return LostEachTime(cause, options_.max_refills);
  }
  ++shard->refills_in_a_row;
  if (absl::IsDataLoss(cause)) shard->client->Drop(shard->name, kDropDeadline).IgnoreError();
  RETURN_IF_ERROR(Fill(*shard, stop));
  ++shard->generation;
  return absl::OkStatus();
}

absl::StatusOr<NeighborClient::Hits> ShardedCorpus::SearchShard(
    Shard* shard, int32_t k, int64_t num_probes, std::span<const float> values,
    const NeighborClient::Stop& stop) const {
  while (true) {
    const int64_t generation = shard->generation;
    auto hits = shard->client->Search(shard->name, k, num_probes, values, stop);
    if (hits.ok()) {
      shard->refills_in_a_row = 0;
      return hits;
    }
    // FAILED_PRECONDITION means that the shard is not sealed: its server restarted, and another
    // process that uses the same name is filling it.
    const absl::Status& status = hits.status();
    const bool lost =
        absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsFailedPrecondition(status);
    if (!lost) return status;
    RETURN_IF_ERROR(Refill(shard, generation, status, stop));
  }
}

void ShardedCorpus::Drop() {
  const auto num_shards = static_cast<int64_t>(shards_.size());
  ForEach(num_shards, num_shards, nullptr, [&](int64_t i, const NeighborClient::Stop&) {
    if (!shards_[i]->name.empty()) {
      shards_[i]->client->Drop(shards_[i]->name, kDropDeadline).IgnoreError();
    }
    return absl::OkStatus();
  }).IgnoreError();
}

// Searches all shards for blocks of documents and merges the answers.
//
// Every (batch, shard) pair is one call; the thread that receives the last answer of a batch
// (num_open reaches 0) merges it, so no lock is needed around the answers. A call that finds its
// shard lost fills the shard again under Shard::filling. Many calls fail at the same time when a
// server is lost, so each remembers the generation of the shard before its search: if the
// generation has changed once the lock is acquired, another call has filled the shard, and the
// search is only repeated.
class ShardedSearch final : public NeighborSearch {
 public:
  ShardedSearch(ShardedCorpus* corpus, int32_t k, int64_t num_lists)
      : corpus_(corpus),
        k_(k),
        num_lists_(num_lists),
        num_probes_(std::min<int64_t>(num_lists, 1)) {}

  std::optional<int64_t> num_lists() const override {
    return num_lists_ > 0 ? std::optional(num_lists_) : std::nullopt;
  }
  void SetProbes(int64_t num_probes) override {
    BRAID_CHECK(num_probes >= 1 && num_probes <= num_lists_) << num_probes;
    num_probes_ = num_probes;
  }

  absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows,
                    const StopCheck& check) const override {
    const auto num_shards = static_cast<int64_t>(corpus_->shards_.size());
    const auto num_documents = static_cast<int64_t>(documents.size());
    const int64_t step = BatchDocuments();
    const int64_t num_batches = (num_documents + step - 1) / step;
    std::vector<Batch> batches(static_cast<size_t>(num_batches));
    for (int64_t b = 0; b < num_batches; ++b) {
      const int64_t begin = b * step, count = std::min(step, num_documents - begin);
      batches[b].documents = documents.subspan(begin, count);
      batches[b].rows = {rows.ids.subspan(begin * k_, count * k_),
                         rows.scores.subspan(begin * k_, count * k_)};
      batches[b].answers.resize(static_cast<size_t>(num_shards));
      batches[b].num_open = num_shards;
    }
    return ForEach(num_batches * num_shards, num_shards * corpus_->options_.calls_per_server, check,
                   [&](int64_t call, const NeighborClient::Stop& stop) {
                     return Ask(&batches[call / num_shards], call % num_shards, stop);
                   });
  }

 private:
  struct Batch {
    std::span<const uint32_t> documents;
    NeighborRows rows;
    std::vector<NeighborClient::Hits> answers;  // by shard
    std::atomic<int64_t> num_open{0};           // shards that have not answered
  };

  // Returns the queries of one call: whole blocks of centroid products, the same that one search
  // would use, so that rounding chooses the same lists.
  int64_t BatchDocuments() const {
    constexpr int64_t kBlock = 128, kBytesOfAResult = 14;
    const int64_t by_query = corpus_->RowsPerMessage(corpus_->vectors_.d * int64_t{sizeof(float)});
    const int64_t by_result = corpus_->RowsPerMessage((k_ + 1) * kBytesOfAResult);
    const int64_t most = std::min(by_query, by_result);
    return most >= kBlock ? most / kBlock * kBlock : most;
  }

  absl::Status Ask(Batch* batch, int64_t shard_number, const NeighborClient::Stop& stop) const {
    ShardedCorpus::Shard* shard = corpus_->shards_[shard_number].get();
    if (shard->range.begin < shard->range.end) {
      std::vector<float> queries;
      GatherRows(corpus_->vectors_, batch->documents, &queries);
      ASSIGN_OR_RETURN(batch->answers[shard_number],
                       corpus_->SearchShard(shard, k_ + 1, num_probes_, queries, stop));
      RETURN_IF_ERROR(CheckAnswer(*shard, batch->documents.size(), batch->answers[shard_number]));
    }
    if (--batch->num_open == 0) Merge(batch);
    return absl::OkStatus();
  }

  absl::Status CheckAnswer(const ShardedCorpus::Shard& shard, size_t num_queries,
                           const NeighborClient::Hits& hits) const {
    const size_t expected = num_queries * static_cast<size_t>(k_ + 1);
    const bool own = std::ranges::all_of(hits.ids, [&](int64_t id) {
      return id == -1 || (id >= shard.range.begin && id < shard.range.end);
    });
    const bool finite = std::ranges::all_of(hits.scores, [](float s) { return std::isfinite(s); });
    if (hits.ids.size() == expected && hits.scores.size() == expected && own && finite) {
      return absl::OkStatus();
    }
    return absl::InternalError(
        absl::StrCat("neighbor server ", shard.client->address(), ", shard ", shard.name,
                     ": malformed answer: got ", hits.ids.size(), " ids and ", hits.scores.size(),
                     " scores, expected ", expected, " of each, finite scores, and documents from ",
                     shard.range.begin, " to ", shard.range.end));
  }

  void Merge(Batch* batch) const {
    const auto k = static_cast<size_t>(k_);
    std::vector<ScoredId> ranked;
    for (size_t i = 0; i < batch->documents.size(); ++i) {
      ranked.clear();
      for (const NeighborClient::Hits& hits : batch->answers) {
        for (size_t j = i * (k + 1); j < (i + 1) * (k + 1) && j < hits.ids.size(); ++j) {
          if (hits.ids[j] < 0) break;
          ranked.push_back({static_cast<uint32_t>(hits.ids[j]), hits.scores[j]});
        }
      }
      std::ranges::sort(ranked, IsCloser);
      WriteRow(ranked, batch->documents[i], k, i, batch->rows);
    }
    batch->answers = {};
  }

  ShardedCorpus* corpus_;
  int32_t k_;
  int64_t num_lists_;   // 0: exact
  int64_t num_probes_;  // 0: exact
};

std::unique_ptr<NeighborSearch> ShardedCorpus::MakeExactSearch(int32_t k) {
  return std::make_unique<ShardedSearch>(this, k, 0);
}

std::unique_ptr<NeighborSearch> ShardedCorpus::MakeListSearch(int32_t k) {
  return std::make_unique<ShardedSearch>(
      this, k, static_cast<int64_t>(centroids_.size()) / std::max(vectors_.d, 1));
}

}  // namespace braid
