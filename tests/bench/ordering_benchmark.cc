// Documents per second of the similarity order, symmetrising included.
//
//   braid-bench-ordering --documents 1000000 --k 20 --threads 2
//
// The graph is random, without locality: each document lists k uniformly drawn
// ones. Prints one JSON line, for the fastest of five runs.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <iostream>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "pipeline/similarity_order.h"

namespace braid {
namespace {

struct Settings {
  int64_t documents = 1000000;
  int64_t k = 20;
  int64_t threads = 2;
};

bool Parse(int argc, char** argv, Settings* settings) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i], text = argv[i + 1];
    int64_t* value = name == "--documents" ? &settings->documents
                     : name == "--k"       ? &settings->k
                     : name == "--threads" ? &settings->threads
                                           : nullptr;
    if (value == nullptr) return false;
    const auto [end, error] = std::from_chars(text.begin(), text.end(), *value);
    if (error != std::errc() || end != text.end() || *value < 1) return false;
  }
  return argc % 2 == 1 && settings->documents < (int64_t{1} << 32) - 1;
}

struct Timing {
  double seconds = std::numeric_limits<double>::infinity();
  double cpu_seconds = 0;  // of all threads; what a busy machine disturbs least
  size_t num_paths = 0;
};

Timing TimeOrder(const NeighborLists& lists, const Settings& settings) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  const DocumentOrder order =
      SimilarityOrder(lists, settings.documents, static_cast<int>(settings.threads));
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {elapsed.count(), cpu_seconds, order.path_starts.size()};
}

void Run(const Settings& settings) {
  std::mt19937_64 random(1);
  std::vector<uint32_t> ids(settings.documents * settings.k);
  std::vector<float> scores(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<uint32_t>(random() % settings.documents);
    scores[i] =
        1.0f / static_cast<float>(1 + i % settings.k) + static_cast<float>(random() % 64) / 6400;
  }
  const NeighborLists lists{static_cast<int32_t>(settings.k), ids, scores};
  Timing best;
  for (int run = 0; run < 5; ++run) {
    const Timing timing = TimeOrder(lists, settings);
    if (timing.seconds < best.seconds) best = timing;
  }
  std::cout << "{\"documents\": " << settings.documents << ", \"k\": " << settings.k
            << ", \"threads\": " << settings.threads << ", \"paths\": " << best.num_paths
            << ", \"seconds\": " << best.seconds << ", \"cpu_seconds\": " << best.cpu_seconds
            << ", \"documents_per_second\": "
            << static_cast<int64_t>(static_cast<double>(settings.documents) / best.seconds) << "}"
            << std::endl;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::Settings settings;
  if (!braid::Parse(argc, argv, &settings)) {
    std::cerr << "usage: braid-bench-ordering [--documents N] [--k K] [--threads T]\n";
    return 2;
  }
  braid::Run(settings);
  return 0;
}
