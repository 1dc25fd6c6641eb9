#include "cli/pipeline_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "pipeline/ordering/similarity_order.h"
#include "retrieval/block_product.h"
#include "retrieval/document_frequencies.h"
#include "retrieval/hashing_embedder.h"
#include "retrieval/neighbor_graph.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

constexpr int kBenchNeighbors = 20;
constexpr uint64_t kBenchSeed = 1;
// Limits of the search of all lists, which takes most of the time.
constexpr double kMostSearchSeconds = 3;
constexpr int64_t kMostStageDocuments = 16'384;
constexpr int64_t kFewestDocuments = 4096;

// Returns the time that `work` takes, other programs and limits of the machine included.
template <class Work>
double SecondsOf(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns documents of words whose frequencies fall as in natural text (Zipf's law).
std::vector<std::string> MadeUpTexts(const BenchSizes& sizes) {
  constexpr double kWords = 30'000;
  uint64_t state = kBenchSeed;
  std::vector<std::string> texts(sizes.documents);
  for (std::string& text : texts) {
    while (std::ssize(text) < sizes.text_bytes) {
      const double rank = std::pow(kWords, UnitInterval(NextSplitMix64(&state)));
      absl::StrAppend(&text, absl::Hex(Mix64(static_cast<uint64_t>(rank)) >> 40), " ");
    }
  }
  return texts;
}

// Returns how many documents can be compared with each other in a few seconds, at most those of
// `sizes`.
int64_t DocumentsInTime(const BenchSizes& sizes, double gflops) {
  const auto n = static_cast<double>(sizes.documents);
  const double seconds = 2 * n * n * sizes.dimension / (gflops * 1e9);
  if (seconds <= kMostSearchSeconds) return sizes.documents;
  const auto fewer = static_cast<int64_t>(n * std::sqrt(kMostSearchSeconds / seconds));
  return std::min(sizes.documents, std::max(kFewestDocuments, fewer));
}

struct MeasuredGraph {
  std::vector<uint32_t> ids;
  std::vector<float> scores;
  double prepare_seconds = 0, find_seconds = 0;
};

// Searches the neighbors of all documents in `probes` of `lists` lists.
absl::StatusOr<MeasuredGraph> MeasureSearch(const DocumentVectors& vectors, int64_t lists,
                                            int64_t probes) {
  if (Interrupted()) return absl::CancelledError("interrupted");
  v1::NeighborConfig config;
  config.set_index(absl::StrCat("IVF", lists, ",Flat"));
  config.set_k(kBenchNeighbors);
  config.set_nprobe(static_cast<int32_t>(probes));
  config.set_recall_sample(1000);
  MeasuredGraph graph;
  absl::StatusOr<NeighborGraphSearch> search;
  graph.prepare_seconds = SecondsOf(
      [&] { search = NeighborGraphSearch::Prepare(vectors, config, kBenchSeed, nullptr); });
  RETURN_IF_ERROR(search.status());
  graph.ids.resize(vectors.n * kBenchNeighbors);
  graph.scores.resize(graph.ids.size());
  absl::Status found;
  graph.find_seconds = SecondsOf([&] {
    found = search->Find(0, {graph.ids, graph.scores}, nullptr);
  });
  RETURN_IF_ERROR(found);
  return graph;
}

// Fits both constants of the neighbor search to searches of few and of all lists.
absl::Status MeasureNeighbors(const DocumentVectors& vectors, PipelineRates* rates) {
  const auto n = static_cast<double>(vectors.n);
  // As long as those of a million documents: short lists cost more per comparison.
  const int64_t lists = std::max<int64_t>(16, vectors.n / 250);
  const int64_t few = std::max<int64_t>(1, lists / 16);
  ASSIGN_OR_RETURN(const MeasuredGraph fast, MeasureSearch(vectors, lists, few));
  ASSIGN_OR_RETURN(const MeasuredGraph graph, MeasureSearch(vectors, lists, lists));
  const double all = n * n * vectors.d;
  const double few_share = static_cast<double>(few) / static_cast<double>(lists);
  rates->neighbors_product =
      std::max(0.0, graph.find_seconds - fast.find_seconds) / (all * (1 - few_share));
  rates->neighbors_document =
      (fast.prepare_seconds +
       std::max(0.0, fast.find_seconds - rates->neighbors_product * all * few_share)) /
      n;
  DocumentOrder order;
  // The walk, which is most of the time of a large corpus, has one thread.
  const double seconds = SecondsOf([&] {
    order = SimilarityOrder({kBenchNeighbors, graph.ids, graph.scores}, vectors.n);
  });
  rates->order = seconds / n;
  return absl::OkStatus();
}

std::string Seconds(double seconds) {
  return seconds < 100 ? absl::StrFormat("%.1f s", seconds) : FormatDuration(seconds);
}

}  // namespace

double MeasureProductGflops() {
  constexpr int32_t kExtent = 1024;
  constexpr double kFlops = 2.0 * kExtent * kExtent * kExtent;
  const std::vector<float> a(kExtent * kExtent, 1);
  std::vector<float> products(a.size());
  double best = 0;
  for (int run = 0; run < 4; ++run) {
    const double seconds = SecondsOf(
        [&] { BlockProduct(a.data(), kExtent, a.data(), kExtent, kExtent, products.data()); });
    if (run > 0) best = std::max(best, kFlops / 1e9 / std::max(seconds, 1e-9));
  }
  return best;
}

absl::StatusOr<PipelineRates> MeasurePipeline(const BenchSizes& most) {
  const int threads_before = RetrievalThreads();
  SetRetrievalThreads(most.num_threads);
  const absl::Cleanup restore = [threads_before] { SetRetrievalThreads(threads_before); };
  PipelineRates rates{.product_gflops = MeasureProductGflops()};
  BenchSizes sizes = most;
  sizes.documents = DocumentsInTime(most, rates.product_gflops);
  const std::vector<std::string> texts = MadeUpTexts(sizes);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<float> values(sizes.documents * sizes.dimension);
  absl::Status embedded;
  const double seconds = SecondsOf([&] {
    constexpr int32_t kNgrams = 2;
    DocumentFrequencies frequencies(kNgrams);
    frequencies.AddAll(views);
    const auto embedder =
        HashingEmbedder::Create({sizes.dimension, kNgrams}, std::move(frequencies));
    embedded = embedder.ok() ? (*embedder)->Embed(views, values) : embedder.status();
  });
  RETURN_IF_ERROR(embedded);
  int64_t bytes = 0;
  for (const std::string& text : texts) bytes += std::ssize(text);
  rates.embed = seconds / static_cast<double>(bytes);
  RETURN_IF_ERROR(MeasureNeighbors({values, sizes.documents, sizes.dimension}, &rates));
  const int64_t staged = std::min(sizes.documents, kMostStageDocuments);
  ASSIGN_OR_RETURN(rates.stages,
                   MeasureStages({texts.begin(), texts.begin() + staged}, most.num_threads));
  return rates;
}

double EmbedSeconds(const PipelineRates& rates, const ForecastCorpus& corpus) {
  return rates.embed * corpus.documents * corpus.text_bytes;
}

double NeighborSeconds(const PipelineRates& rates, const ForecastCorpus& corpus) {
  return rates.neighbors_document * corpus.documents + rates.neighbors_product * corpus.dimension *
                                                           corpus.documents * corpus.documents *
                                                           corpus.searched_share;
}

double TokenizeSeconds(const PipelineRates& rates, const ForecastCorpus& corpus) {
  return rates.stages.tokenize * corpus.documents * corpus.text_bytes;
}

double HeldoutSeconds(const PipelineRates& rates, const ForecastCorpus& corpus) {
  constexpr double kIndexBytes = 32 << 20;
  const double bytes = corpus.documents * corpus.text_bytes;
  return rates.stages.heldout * bytes * std::ceil(bytes * corpus.heldout_share / kIndexBytes);
}

double PackSeconds(const PipelineRates& rates, const ForecastCorpus& corpus) {
  return rates.stages.pack * corpus.documents * corpus.tokens;
}

Findings DescribeRates(const PipelineRates& rates, const ForecastCorpus& corpus) {
  const auto both = [&](const std::function<double(const PipelineRates&)>& seconds) {
    return absl::StrFormat("%s documents: %s (docs/scale.md: %s)",
                           WithThousands(static_cast<int64_t>(corpus.documents)),
                           Seconds(seconds(rates)), Seconds(seconds(kStatedRates)));
  };
  const auto formula = [](const PipelineRates& of) {
    return absl::StrFormat("%.3ge-6 N + %.3ge-12 d N^2 P/L", of.neighbors_document * 1e6,
                           of.neighbors_product * 1e12);
  };
  // Describes a formula with one constant, in 1e-9 s.
  const auto one = [&](const char* what, const char* formula_text, double StageRates::*rate,
                       double (*seconds)(const PipelineRates&, const ForecastCorpus&)) {
    return Finding{
        Grade::kGood, what,
        absl::StrFormat("%.3ge-9 s %s (docs/scale.md: %.3ge-9); %s", rates.stages.*rate * 1e9,
                        formula_text, kStatedRates.stages.*rate * 1e9,
                        both([&](const PipelineRates& of) { return seconds(of, corpus); })),
        ""};
  };
  return {
      {Grade::kGood, "bench: products", absl::StrFormat("%.3g GFLOP/s", rates.product_gflops), ""},
      {Grade::kGood, "bench: tokenizer",
       absl::StrFormat("%.1f s per MiB to train on (docs/scale.md: %.1f)",
                       rates.stages.tokenizer_training, kStatedRates.stages.tokenizer_training),
       ""},
      one("bench: tokenize", "N B", &StageRates::tokenize, TokenizeSeconds),
      {Grade::kGood, "bench: embed",
       absl::StrFormat("%.3ge-9 s N B (docs/scale.md: %.3ge-9); %s", rates.embed * 1e9,
                       kStatedRates.embed * 1e9,
                       both([&](const PipelineRates& of) { return EmbedSeconds(of, corpus); })),
       ""},
      {Grade::kGood, "bench: neighbors",
       absl::StrFormat("%s (docs/scale.md: %s); d = %.0f, P/L = %.2f, %s", formula(rates),
                       formula(kStatedRates), corpus.dimension, corpus.searched_share,
                       both([&](const PipelineRates& of) { return NeighborSeconds(of, corpus); })),
       ""},
      {Grade::kGood, "bench: order",
       absl::StrFormat("%.3ge-6 s N; %s documents: %s, without the held-out comparison",
                       rates.order * 1e6, WithThousands(static_cast<int64_t>(corpus.documents)),
                       Seconds(rates.order * corpus.documents)),
       ""},
      one("bench: held-out comparison", "N B per started 32 MiB", &StageRates::heldout,
          HeldoutSeconds),
      one("bench: pack", "N T", &StageRates::pack, PackSeconds)};
}

}  // namespace braid
