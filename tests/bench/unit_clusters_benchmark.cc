// Measures balanced clustering of the hidden units of one FFN layer.
//
//   braid-bench-unit-clusters --units 11008 --dimension 4096 --experts 64 --threads 2
//
// The rows are normal random numbers around 32 random directions. Prints one line of JSON: seconds
// until no round lowers the cost (at most --rounds rounds), those of one assignment of random
// costs, and those of putting the units of the three matrices of the FFN back into their places.
// "bars" has the figures that are wanted to be below a limit; the exit code is 1 if one is not.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <vector>

#include "base/blas_core.h"
#include "conversion/balanced_clusters.h"
#include "conversion/unit_order.h"
#include "retrieval/parallel_for.h"
#include "tests/bench/bars.h"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

struct Settings {
  int64_t units = 11008;
  int64_t dimension = 4096;
  int32_t experts = 64;
  int rounds = 50;
  int threads = 2;
};

std::vector<float> Rows(const Settings& settings) {
  constexpr int64_t kDirections = 32;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> directions(kDirections * settings.dimension);
  for (float& value : directions) value = normal(random);
  std::vector<float> rows(settings.units * settings.dimension);
  for (int64_t unit = 0; unit < settings.units; ++unit) {
    const float* const direction = &directions[random() % kDirections * settings.dimension];
    for (int64_t k = 0; k < settings.dimension; ++k) {
      rows[unit * settings.dimension + k] = normal(random) + .3f * direction[k];
    }
  }
  return rows;
}

template <class Work>
double Seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the seconds that the experts of a layer take to become one FFN again.
double SecondsOfRecompose(const Settings& settings, std::span<const float> rows) {
  const UnitOrder order = OrExit(SplitUnits(ExpertSplit::kRandom, rows, settings.units,
                                            settings.dimension, settings.experts, 1));
  std::vector<float> restored(rows.size());
  return Seconds([&] {
    for (int matrix = 0; matrix < 3; ++matrix) RestoreUnits(rows, order, restored);
  });
}

int Measure(const Settings& settings) {
  SetRetrievalThreads(settings.threads);
  const std::vector<float> rows = Rows(settings);
  BalancedClusters clusters;
  const double all = Seconds([&] {
    clusters = OrExit(ClusterBalanced(rows, settings.units, settings.dimension, settings.experts,
                                      {.seed = 1, .max_rounds = settings.rounds}));
  });
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> costs(settings.units * settings.experts);
  for (float& cost : costs) cost = normal(random);
  std::vector<double> prices(settings.experts, 0);
  const double assignment =
      Seconds([&] { AssignBalanced(costs, settings.units, settings.experts, &prices); });
  // The last round, which does not lower the cost, has none.
  const nlohmann::json bars = {{"seconds", AtMost(all, 20)},
                               {"rounds", AtMost(clusters.costs.size(), settings.rounds - 1)}};
  std::cout << nlohmann::json{{"units", settings.units},
                              {"dimension", settings.dimension},
                              {"experts", settings.experts},
                              {"threads", settings.threads},
                              {"seconds", all},
                              {"rounds", clusters.costs.size()},
                              {"first_cost", clusters.costs.front()},
                              {"last_cost", clusters.costs.back()},
                              {"assignment_seconds", assignment},
                              {"recompose_seconds", SecondsOfRecompose(settings, rows)},
                              {"bars", bars}}
            << std::endl;
  return ExitCodeOf(bars);
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  CLI::App app("Balanced clusters of the hidden units of an FFN layer");
  braid::Settings settings;
  app.add_option("--units", settings.units, "Hidden units")->capture_default_str();
  app.add_option("--dimension", settings.dimension, "Width of the model")->capture_default_str();
  app.add_option("--experts", settings.experts, "Clusters")->capture_default_str();
  app.add_option("--rounds", settings.rounds, "Rounds at most")->capture_default_str();
  app.add_option("--threads", settings.threads, "Threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return braid::Measure(settings);
}
