// Measures documents per second of the similarity order, including symmetrization, and compares it
// with the rule of the scripts released with in-context pretraining.
//
//   braid-bench-ordering --documents 1000000 --k 20 --threads 2
//   braid-bench-ordering --neighbors DIR/neighbors.npy --scores DIR/scores.npy
//                        --vectors embeddings.npy --partitions 8
//
// Without --neighbors the graph is random: a share `--locality` of the edges connects documents
// whose numbers differ by at most 500, the others are uniform. The other rule, implemented as plain
// loops in C++ and in Python (if there is a python3), continues with the first unvisited neighbor
// of a document or, if there is none, with the next unvisited document. Prints one line of JSON for
// the fastest of
// `--runs`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "formats/npy.h"
#include "pipeline/ordering/document_partition.h"
#include "pipeline/ordering/partitioned_order.h"
#include "pipeline/ordering/similarity_order.h"
#include "retrieval/inner_product.h"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

struct Settings {
  int64_t documents = 1'000'000;
  int64_t k = 20;
  int threads = 2;
  int runs = 5;
  double locality = 0;
  int64_t partitions = 0;
  bool python = true;
  std::string neighbors, scores, vectors;
};

struct Graph {
  int64_t n = 0;
  std::vector<uint32_t> ids;
  std::vector<float> scores;
  int32_t k = 0;

  NeighborLists view() const { return {k, ids, scores}; }
};

Graph MakeUp(const Settings& settings) {
  Graph graph{settings.documents, {}, {}, static_cast<int32_t>(settings.k)};
  std::mt19937_64 random(1);
  const auto n = static_cast<uint64_t>(graph.n);
  const uint64_t near = std::min<uint64_t>(1000, n);
  graph.ids.resize(n * settings.k);
  graph.scores.resize(graph.ids.size());
  for (size_t i = 0; i < graph.ids.size(); ++i) {
    const bool local = static_cast<double>(random() % 1000) < settings.locality * 1000;
    const uint64_t place = local ? i / settings.k + n - near / 2 + random() % near : random();
    graph.ids[i] = static_cast<uint32_t>(place % n);
    graph.scores[i] =
        1.0f / static_cast<float>(1 + i % settings.k) + static_cast<float>(random() % 64) / 6400;
  }
  return graph;
}

Graph Read(const Settings& settings) {
  const auto ids = OrExit(NpyArray<uint32_t>::Open(settings.neighbors));
  const auto scores = OrExit(NpyArray<float>::Open(settings.scores));
  return {ids.num_rows(),
          {ids.values().begin(), ids.values().end()},
          {scores.values().begin(), scores.values().end()},
          static_cast<int32_t>(ids.row_size())};
}

std::vector<uint32_t> ReleasedRule(const NeighborLists& lists, int64_t n) {
  std::vector<uint32_t> order;
  order.reserve(n);
  std::vector<bool> visited(n, false);
  uint32_t unvisited = 0;
  for (uint32_t at = 0; static_cast<int64_t>(order.size()) < n;) {
    visited[at] = true;
    order.push_back(at);
    uint32_t next = NeighborLists::kPadding;
    for (uint32_t id : RowOf(lists, at).ids) {
      if (id == NeighborLists::kPadding || visited[id]) continue;
      next = id;
      break;
    }
    while (next == NeighborLists::kPadding && unvisited < n) {
      if (!visited[unvisited]) next = unvisited;
      ++unvisited;
    }
    at = next;
  }
  return order;
}

// Returns the seconds of the same loop in Python, without reading the graph; nullopt without
// Python.
std::optional<double> PythonSeconds(const Graph& graph) {
  constexpr char kScript[] = R"(
import array, sys, time
n, k = int(sys.argv[2]), int(sys.argv[3])
flat = array.array('I')
with open(sys.argv[1], 'rb') as f: flat.fromfile(f, n * k)
rows = [flat[i * k:(i + 1) * k].tolist() for i in range(n)]
start = time.perf_counter()
visited = bytearray(n)
order, at, unvisited = [], 0, 0
while len(order) < n:
    visited[at] = 1
    order.append(at)
    for other in rows[at]:
        if other != 4294967295 and not visited[other]:
            at = other
            break
    else:
        while unvisited < n and visited[unvisited]: unvisited += 1
        at = unvisited
print(time.perf_counter() - start)
)";
  const std::filesystem::path stem =
      std::filesystem::temp_directory_path() / ("braid-ordering-" + std::to_string(getpid()));
  const std::string script = stem.string() + ".py", data = stem.string() + ".bin";
  std::ofstream(script) << kScript;
  std::ofstream(data, std::ios::binary)
      .write(reinterpret_cast<const char*>(graph.ids.data()),
             static_cast<std::streamsize>(graph.ids.size() * sizeof(uint32_t)));
  const std::string command = "python3 " + script + " " + data + " " + std::to_string(graph.n) +
                              " " + std::to_string(graph.k) + " 2>/dev/null";
  std::optional<double> seconds;
  if (FILE* pipe = popen(command.c_str(), "r"); pipe != nullptr) {
    double read = 0;
    if (std::fscanf(pipe, "%lf", &read) == 1) seconds = read;
    pclose(pipe);
  }
  std::filesystem::remove(script);
  std::filesystem::remove(data);
  return seconds;
}

struct Timing {
  double seconds = std::numeric_limits<double>::infinity();
  double cpu_seconds = 0;  // for all threads; least affected by other programs
};

template <class Work>
Timing Fastest(int runs, const Work& work) {
  Timing best;
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    work();
    const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (elapsed.count() < best.seconds) best = {elapsed.count(), cpu};
  }
  return best;
}

double AdjacentCosine(const NpyArray<float>& vectors, const std::vector<uint32_t>& order) {
  const auto d = static_cast<int32_t>(vectors.row_size());
  double sum = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    sum += InnerProduct(vectors.values().data() + int64_t{order[i - 1]} * d,
                        vectors.values().data() + int64_t{order[i]} * d, d);
  }
  return order.size() < 2 ? 0 : sum / static_cast<double>(order.size() - 1);
}

void Run(const Settings& settings) {
  const Graph graph = settings.neighbors.empty() ? MakeUp(settings) : Read(settings);
  const auto rate = [&](double seconds) { return static_cast<double>(graph.n) / seconds; };
  DocumentOrder ours;
  const Timing timing = Fastest(
      settings.runs, [&] { ours = SimilarityOrder(graph.view(), graph.n, settings.threads); });
  nlohmann::ordered_json report = {{"documents", graph.n},
                                   {"k", graph.k},
                                   {"threads", settings.threads},
                                   {"paths", ours.path_starts.size()},
                                   {"seconds", timing.seconds},
                                   {"cpu_seconds", timing.cpu_seconds},
                                   {"documents_per_second", rate(timing.seconds)}};
  std::vector<uint32_t> theirs;
  const Timing released =
      Fastest(settings.runs, [&] { theirs = ReleasedRule(graph.view(), graph.n); });
  report["released_rule_cpp_seconds"] = released.seconds;
  if (settings.python) {
    if (const auto python = PythonSeconds(graph)) {
      report["released_rule_python_seconds"] = *python;
      report["speedup_over_python"] = *python / timing.seconds;
    }
  }
  if (!settings.vectors.empty()) {
    const auto vectors = OrExit(NpyArray<float>::Open(settings.vectors));
    report["adjacent_cosine"] = AdjacentCosine(vectors, ours.order);
    report["released_rule_adjacent_cosine"] = AdjacentCosine(vectors, theirs);
    report["random_adjacent_cosine"] = AdjacentCosine(vectors, RandomOrder(graph.n, 1).order);
    if (settings.partitions > 1) {
      const DocumentVectors rows{vectors.values().first(graph.n * vectors.row_size()), graph.n,
                                 static_cast<int32_t>(vectors.row_size())};
      const auto parts = PartitionDocuments(rows, settings.partitions, 1, nullptr);
      DocumentOrder partitioned;
      const Timing in_parts = Fastest(1, [&] {
        partitioned =
            PartitionedOrder(graph.view(), graph.n, *parts, settings.partitions, settings.threads);
      });
      report["partitions"] = settings.partitions;
      report["partitioned_seconds"] = in_parts.seconds;
      report["partitioned_paths"] = partitioned.path_starts.size();
      report["partitioned_adjacent_cosine"] = AdjacentCosine(vectors, partitioned.order);
    }
  }
  std::cout << report.dump() << std::endl;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::Settings settings;
  CLI::App app("Measure documents per second of the similarity order");
  app.add_option("--documents", settings.documents)->check(CLI::Range(1ll, (1ll << 32) - 2));
  app.add_option("--k", settings.k)->check(CLI::Range(1, 1000));
  app.add_option("--threads", settings.threads)->check(CLI::Range(1, 1024));
  app.add_option("--runs", settings.runs)->check(CLI::Range(1, 100));
  app.add_option("--locality", settings.locality,
                 "Share of edges to documents with similar numbers");
  app.add_option("--neighbors", settings.neighbors, "neighbors.npy of a real graph");
  app.add_option("--scores", settings.scores, "scores.npy of that graph");
  app.add_option("--vectors", settings.vectors, "embeddings.npy, for cosines");
  app.add_option("--partitions", settings.partitions, "Also order in this number of partitions");
  app.add_flag("!--no-python", settings.python, "Skip the Python loop");
  CLI11_PARSE(app, argc, argv);
  braid::Run(settings);
  return 0;
}
