// Compares the search for the neighbors of all documents list by list with IndexIVFFlat::search of
// FAISS.
//
//   braid-bench-neighbors --vectors embeddings.npy --probes 64 --json report.json
//   braid-bench-neighbors --random 1000000 --dimension 256 --probes 32
//
// Both use the same centroids, lists and number of probes. FAISS searches --faiss-queries
// documents, and its time is extrapolated to all documents, which "seconds_faiss_is_scaled"
// reports. Without
// --probes, several numbers are tried, and the recall and the seconds of a part are printed for
// each.
#include <faiss/IndexFlat.h>
#include <faiss/IndexIVFFlat.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/blas_core.h"
#include "formats/npy.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/faiss_call.h"
#include "retrieval/list_search.h"
#include "retrieval/recall_sample.h"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

struct Settings {
  std::string vectors, json;
  int64_t random = 200'000;
  int32_t dimension = 256;
  int64_t max_documents = 0;
  int64_t lists = 0;
  std::vector<int64_t> probes;
  int32_t k = 20;
  int threads = 2;
  int64_t queries = 0;  // documents searched list by list; 0: all
  int64_t faiss_queries = 20'000;
  int64_t sample = 1000;
  bool floats = false;
};

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns unit vectors around n / 1000 random directions, a thousand for each.
std::vector<float> RandomVectors(int64_t n, int32_t d) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const int64_t num_centers = std::max<int64_t>(1, n / 1000);
  std::vector<float> centers(num_centers * d), values(n * d);
  for (float& x : centers) x = normal(random);
  for (int64_t i = 0; i < n; ++i) {
    const float* center = centers.data() + random() % num_centers * d;
    float* row = values.data() + i * d;
    double squares = 0;
    for (int32_t j = 0; j < d; ++j) {
      row[j] = center[j] + 1.5f * normal(random);
      squares += row[j] * row[j];
    }
    for (int32_t j = 0; j < d; ++j) row[j] /= static_cast<float>(std::sqrt(squares));
  }
  return values;
}

std::vector<uint32_t> Numbers(int64_t count, int64_t step) {
  std::vector<uint32_t> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<uint32_t>(i * step);
  return numbers;
}

// Returns the neighbors that FAISS finds, without the document itself: [documents, k].
struct FaissResult {
  double seconds = 0;
  double cpu_seconds = 0;
  std::vector<uint32_t> ids;
};

class FaissSearch {
 public:
  FaissSearch(const DocumentVectors& vectors, const InvertedLists& lists)
      : vectors_(vectors),
        quantizer_(vectors.d),
        index_(&quantizer_, vectors.d, lists.num_lists(), faiss::METRIC_INNER_PRODUCT) {
    quantizer_.add(lists.num_lists(), lists.centroids().data());
    index_.is_trained = true;
    const std::vector<int64_t> list_of(lists.list_of().begin(), lists.list_of().end());
    index_.add_core(vectors.n, vectors.values.data(), nullptr, list_of.data());
  }

  FaissResult Search(std::span<const uint32_t> documents, int64_t probes, int32_t k, int threads) {
    index_.nprobe = probes;
    std::vector<float> queries;
    GatherRows(vectors_, documents, &queries);
    std::vector<int64_t> ids(documents.size() * (k + 1));
    std::vector<float> scores(ids.size());
    FaissResult result;
    SetFaissThreads(threads);
    const std::clock_t cpu_start = std::clock();
    result.seconds = Seconds(
        [&] { index_.search(documents.size(), queries.data(), k + 1, scores.data(), ids.data()); });
    result.cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    for (size_t i = 0; i < documents.size(); ++i) {
      int32_t kept = 0;
      for (int32_t j = 0; j <= k && kept < k; ++j) {
        const int64_t id = ids[i * (k + 1) + j];
        if (id == documents[i]) continue;
        result.ids.push_back(static_cast<uint32_t>(id));
        ++kept;
      }
    }
    return result;
  }

 private:
  DocumentVectors vectors_;
  faiss::IndexFlatIP quantizer_;
  faiss::IndexIVFFlat index_;
};

// Returns the share of the neighbors of FAISS that are in our rows.
double Agreement(const FaissResult& faiss, std::span<const uint32_t> ours, int32_t k) {
  int64_t same = 0;
  for (size_t i = 0; i < faiss.ids.size(); ++i) {
    const auto row = ours.subspan(i / k * k, k);
    same += std::ranges::find(row, faiss.ids[i]) != row.end();
  }
  return static_cast<double>(same) / static_cast<double>(faiss.ids.size());
}

nlohmann::json Measure(const Settings& settings, const DocumentVectors& vectors) {
  nlohmann::json report = {{"documents", vectors.n},
                           {"dimension", vectors.d},
                           {"k", settings.k},
                           {"threads", settings.threads},
                           {"blas_core", BlasCoreName()}};
  const int64_t num_lists =
      settings.lists > 0 ? settings.lists : static_cast<int64_t>(4 * std::sqrt(double(vectors.n)));
  report["lists"] = num_lists;
  std::vector<float> centroids;
  report["seconds_training"] =
      Seconds([&] { centroids = OrExit(TrainCentroids(vectors, num_lists, 0, nullptr)); });
  std::optional<InvertedLists> lists;
  report["seconds_assigning"] = Seconds([&] {
    lists.emplace(OrExit(InvertedLists::Assign(vectors, std::move(centroids), nullptr)));
  });
  RecallSample sample;
  report["seconds_recall_sample"] = Seconds([&] {
    const auto exact = MakeExactNeighborSearch(vectors, settings.k);
    sample =
        OrExit(RecallSample::Measure(*exact, vectors.n, settings.k, settings.sample, 0, nullptr));
  });
  std::cerr << report << std::endl;
  const int64_t queries = settings.queries > 0 ? std::min(settings.queries, vectors.n) : vectors.n;
  const auto search =
      MakeListNeighborSearch(vectors, settings.k, &*lists,
                             settings.floats ? ListArithmetic::kFloats : ListArithmetic::kFastest);
  std::optional<FaissSearch> faiss;
  if (settings.faiss_queries > 0) faiss.emplace(vectors, *lists);
  for (int64_t probes : settings.probes) {
    search->SetProbes(std::min(probes, num_lists));
    nlohmann::json row = {{"probes", probes}, {"queries", queries}};
    std::vector<uint32_t> ids(queries * settings.k), sample_ids(sample.ids().size());
    std::vector<float> scores(ids.size()), sample_scores(sample_ids.size());
    OrExit(search->Find(sample.documents(), {sample_ids, sample_scores}, nullptr));
    row["recall_at_k"] = sample.Recall(sample_ids, sample_scores, [](size_t i) { return i; });
    const std::clock_t cpu_start = std::clock();
    const double ours = Seconds([&] {
      OrExit(search->Find(Numbers(queries, 1), {ids, scores}, nullptr));
    });
    row["seconds"] = ours;
    row["cpu_seconds"] = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    row["seconds_for_all"] = ours * double(vectors.n) / double(queries);
    if (faiss) {
      const int64_t count = std::min(settings.faiss_queries, queries);
      const auto found = faiss->Search(Numbers(count, 1), probes, settings.k, settings.threads);
      row["faiss_queries"] = count;
      row["faiss_seconds"] = found.seconds;
      row["faiss_cpu_seconds"] = found.cpu_seconds;
      row["faiss_seconds_for_all"] = found.seconds * double(vectors.n) / double(count);
      row["seconds_faiss_is_scaled"] = count < vectors.n;
      row["speedup"] = found.seconds / double(count) / (ours / double(queries));
      row["same_neighbors"] =
          Agreement(found, std::span(ids).first(count * settings.k), settings.k);
    }
    std::cerr << row << std::endl;
    report["searches"].push_back(row);
  }
  return report;
}

int Run(const Settings& settings) {
  SetRetrievalThreads(settings.threads);
  std::optional<NpyArray<float>> file;
  std::vector<float> random;
  DocumentVectors vectors{{}, settings.random, settings.dimension};
  if (settings.vectors.empty()) {
    random = RandomVectors(vectors.n, vectors.d);
    vectors.values = random;
  } else {
    file = OrExit(NpyArray<float>::Open(settings.vectors));
    vectors = {file->values(), file->num_rows(), static_cast<int32_t>(file->row_size())};
  }
  if (settings.max_documents > 0 && settings.max_documents < vectors.n) {
    vectors.n = settings.max_documents;
    vectors.values = vectors.values.first(vectors.n * vectors.d);
  }
  const nlohmann::json report = Measure(settings, vectors);
  if (!settings.json.empty()) std::ofstream(settings.json) << report.dump(2) << "\n";
  std::cout << report.dump(2) << std::endl;
  return 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  braid::Settings settings;
  CLI::App app("Compare neighbor search list by list with the inverted lists of FAISS");
  app.add_option("--vectors", settings.vectors, "float32 .npy [n, d], rows of norm 1 or 0");
  app.add_option("--random", settings.random, "Number of clustered random vectors to use instead");
  app.add_option("--dimension", settings.dimension, "Dimension of random vectors");
  app.add_option("--max-documents", settings.max_documents, "Use only the first N documents");
  app.add_option("--lists", settings.lists, "Number of lists (default 4 sqrt(n))");
  app.add_option("--probes", settings.probes, "Numbers of lists to search");
  app.add_option("--k", settings.k);
  app.add_option("--threads", settings.threads);
  app.add_option("--queries", settings.queries, "Documents searched list by list (default all)");
  app.add_option("--faiss-queries", settings.faiss_queries, "Documents searched by FAISS; 0: none");
  app.add_option("--sample", settings.sample, "Documents for recall");
  app.add_flag("--floats", settings.floats, "Use only products of floats, as on CPUs without VNNI");
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  if (settings.probes.empty()) settings.probes = {8, 16, 32, 64, 128};
  return braid::Run(settings);
}
