// Measures token-routed experts against the dense FFN that they are slices of: seconds of a forward
// and backward pass, divided by those of the dense FFN times the share k/N of its units that a
// token uses. 1 is the price of the work done; everything above is sorting, gathering and small
// tiles. Also: a dense FFN with dropout over one without, and for which numbers of pairs an expert
// is faster without packing (kUnpackedPairs), forward passes only.
//
//   braid-bench-routed-ffn --json routed.json
//
// Each case has its time over that of the whole dense FFN too ("over_dense"): masking units of the
// dense one could be faster only where that is above 1. "few_rows" has the figures of 64 tokens,
// with about 32 rows for each expert. "by_token" is whether products are added up by token
// (ProductsByToken::Suits).
//
// Experts are chosen by scores that are independent of each other, so loads are even. All cases
// alternate, so that changes of the machine affect all equally; figures are medians over the
// rounds. "bars" has the figures that are wanted to be below a limit; the exit code is 1 if one is
// not.
#include <cblas.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "base/blas_core.h"
#include "model/kernels/expert_selection.h"
#include "model/kernels/expert_slabs.h"
#include "model/kernels/fused_ffn.h"
#include "model/kernels/products_by_token.h"
#include "model/kernels/routed_ffn.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bars.h"

namespace braid {
namespace {

struct Settings {
  int64_t tokens = 4096, width = 512, hidden = 2048;
  int rounds = 7;
  int threads = 2;
  std::string json;
};

struct RoutedCase {
  int64_t num_experts, active;
  bool weighted = true;
  double bar = 0;  // the most that over_share_of_dense may be
};

std::vector<float> RandomValues(int64_t count, float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

// The arrays that all cases share, and the passes over them.
class FfnPasses {
 public:
  explicit FfnPasses(const Settings& s)
      : s_(s),
        x_(RandomValues(s.tokens * s.width, 1, 1)),
        dy_(RandomValues(s.tokens * s.width, 1, 2)),
        weights_(RandomValues(3 * s.hidden * s.width, 0.02f, 3)),
        gradients_(weights_.size()),
        keys_(2 * s.tokens),
        kept_(s.tokens * 2 * s.hidden),
        y_(x_.size()),
        dx_(x_.size()) {
    std::mt19937 random(5);
    for (uint32_t& key : keys_) key = random();
  }

  void Dense(const UnitDropout& dropout = {}) {
    const FfnShape shape = {1, s_.tokens, s_.width, s_.hidden, 1};
    FusedFfnForward(shape, x_.data(), nullptr, Matrices(), kept_.data(), y_.data(), s_.threads,
                    dropout);
    FusedFfnBackward(shape, x_.data(), nullptr, Matrices(), kept_.data(), dy_.data(), dx_.data(),
                     nullptr, Gradients(), s_.threads, dropout);
  }

  void DenseWithDropout() {
    Dense({.kind = UnitDropout::kBernoulli,
           .key_low = keys_.data(),
           .key_high = keys_.data() + s_.tokens,
           .rate = 0.1f});
  }

  void Choose(const RoutedCase& c) {
    scores_ = RandomValues(s_.tokens * c.num_experts, 1, 4);
    gate_scores_.resize(scores_.size());
    chosen_.resize(s_.tokens * c.active);
    combine_.assign(chosen_.size(), 1.0f / static_cast<float>(c.active));
    combine_gradients_.resize(chosen_.size());
    Select(c);
  }

  // The product of the gate, the choice and the sort. The choice is that of random scores.
  void Route(const RoutedCase& c) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(s_.tokens),
                static_cast<int>(c.num_experts), static_cast<int>(s_.width), 1, x_.data(),
                static_cast<int>(s_.width), weights_.data(), static_cast<int>(s_.width), 0,
                gate_scores_.data(), static_cast<int>(c.num_experts));
    Select(c);
    SortByExpert(chosen_, c.num_experts);
  }

  void Select(const RoutedCase& c) {
    SelectExperts(scores_.data(), s_.tokens, c.num_experts, c.active, ExpertSelection::kTop,
                  chosen_.data());
  }

  // The forward pass of one expert for the first `pairs` tokens, packed or not.
  void ForwardOfOneExpert(int64_t pairs, int64_t units, bool packed) {
    const std::vector<int32_t> chosen(pairs, 0);
    RoutedFfnForward({pairs, s_.width, units, 1, 1, packed ? 0 : pairs}, x_.data(),
                     {chosen.data(), combine_.data()}, Matrices(), nullptr, y_.data(), 1);
  }

  void Forward(const RoutedCase& c) {
    RoutedFfnForward(ShapeOf(c), x_.data(), Chosen(c), Matrices(), kept_.data(), y_.data(),
                     s_.threads);
  }

  void Backward(const RoutedCase& c, bool trained) {
    RoutedFfnBackward(ShapeOf(c), x_.data(), Chosen(c), Matrices(), kept_.data(), dy_.data(),
                      dx_.data(), c.weighted ? combine_gradients_.data() : nullptr,
                      trained ? Gradients() : FfnMatrixGradients{nullptr, nullptr, nullptr},
                      s_.threads);
  }

  RoutedFfnShape ShapeOf(const RoutedCase& c) const {
    return {s_.tokens, s_.width, s_.hidden / c.num_experts, c.num_experts, c.active};
  }

 private:
  ChosenExperts Chosen(const RoutedCase& c) const {
    return {chosen_.data(), c.weighted ? combine_.data() : nullptr};
  }
  FfnMatrices Matrices() const {
    const float* const gate = weights_.data();
    return {gate, gate + s_.hidden * s_.width, gate + 2 * s_.hidden * s_.width};
  }
  FfnMatrixGradients Gradients() {
    float* const gate = gradients_.data();
    return {gate, gate + s_.hidden * s_.width, gate + 2 * s_.hidden * s_.width};
  }

  const Settings& s_;
  const std::vector<float> x_, dy_, weights_;
  std::vector<float> gradients_;
  std::vector<uint32_t> keys_;
  std::vector<float> kept_, y_, dx_;
  std::vector<float> scores_, gate_scores_, combine_, combine_gradients_;
  std::vector<int32_t> chosen_;
};

struct CaseTimes {
  std::vector<double> forward, backward, frozen_backward, routing;
};

nlohmann::json Describe(const RoutedCase& c, const RoutedFfnShape& shape, const CaseTimes& times,
                        double dense) {
  const double share = static_cast<double>(c.active) / static_cast<double>(c.num_experts);
  const double forward = Median(times.forward), backward = Median(times.backward);
  return {{"experts", c.num_experts},
          {"active", c.active},
          {"combine_weights", c.weighted},
          {"units_per_expert", shape.hidden},
          {"rows_per_expert", shape.num_pairs() / shape.num_experts},
          {"by_token", ProductsByToken::Suits(shape, shape.num_pairs())},
          {"forward_seconds", forward},
          {"backward_seconds", backward},
          {"over_dense", (forward + backward) / dense},
          {"over_share_of_dense", (forward + backward) / (share * dense)},
          {"frozen_backward_over_backward", Median(times.frozen_backward) / backward},
          {"gate_choice_sort_over_dense", Median(times.routing) / dense}};
}

// Returns, for an expert of N 16, the microseconds of both ways by number of pairs, and the most
// pairs at which it is faster not to pack.
nlohmann::json MeasureUnpacked(const Settings& s) {
  FfnPasses passes(s);
  passes.Choose({16, 4});
  const int64_t units = s.hidden / 16;
  nlohmann::json table = nlohmann::json::array();
  int64_t most = 0;
  for (const int64_t pairs : {1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32}) {
    std::vector<double> packed, unpacked;
    for (int round = 0; round <= 20 * s.rounds; ++round) {
      const double with = SecondsOf([&] { passes.ForwardOfOneExpert(pairs, units, true); });
      const double without = SecondsOf([&] { passes.ForwardOfOneExpert(pairs, units, false); });
      if (round == 0) continue;  // generates kernels
      packed.push_back(with);
      unpacked.push_back(without);
    }
    if (Median(unpacked) < Median(packed)) most = pairs;
    table.push_back({{"pairs", pairs},
                     {"packed_us", 1e6 * Median(packed)},
                     {"unpacked_us", 1e6 * Median(unpacked)}});
  }
  return {{"faster_up_to_pairs", most}, {"rule_pairs", kUnpackedPairs}, {"times", table}};
}

nlohmann::json MeasureCases(const Settings& s, const std::vector<RoutedCase>& cases) {
  FfnPasses passes(s);
  std::vector<double> dense, dropped;
  std::vector<CaseTimes> times(cases.size());
  for (int round = 0; round <= s.rounds; ++round) {
    const double dense_seconds = SecondsOf([&] { passes.Dense(); });
    const double dropped_seconds = SecondsOf([&] { passes.DenseWithDropout(); });
    if (round > 0) {
      dense.push_back(dense_seconds);
      dropped.push_back(dropped_seconds);
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      const RoutedCase& c = cases[i];
      passes.Choose(c);
      CaseTimes now;
      now.routing.push_back(SecondsOf([&] { passes.Route(c); }));
      now.forward.push_back(SecondsOf([&] { passes.Forward(c); }));
      now.backward.push_back(SecondsOf([&] { passes.Backward(c, /*trained=*/true); }));
      now.frozen_backward.push_back(SecondsOf([&] { passes.Backward(c, /*trained=*/false); }));
      if (round == 0) continue;  // warms up caches and generated kernels
      times[i].routing.push_back(now.routing[0]);
      times[i].forward.push_back(now.forward[0]);
      times[i].backward.push_back(now.backward[0]);
      times[i].frozen_backward.push_back(now.frozen_backward[0]);
    }
  }
  nlohmann::json result = {{"tokens", s.tokens},
                           {"rounds", s.rounds},
                           {"dense_seconds", Median(dense)},
                           {"bernoulli_over_dense", Median(dropped) / Median(dense)},
                           {"cases", nlohmann::json::array()}};
  for (size_t i = 0; i < cases.size(); ++i) {
    result["cases"].push_back(
        Describe(cases[i], passes.ShapeOf(cases[i]), times[i], Median(dense)));
  }
  return result;
}

nlohmann::json BarsOf(const std::vector<RoutedCase>& cases, const nlohmann::json& result) {
  nlohmann::json bars = {{"bernoulli_over_dense", AtMost(result["bernoulli_over_dense"], 1.05)}};
  double frozen_backward = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const RoutedCase& c = cases[i];
    const nlohmann::json& figures = result["cases"][i];
    const std::string name = "n" + std::to_string(c.num_experts) + "_k" + std::to_string(c.active) +
                             (c.weighted ? "" : "_ones");
    bars[name + "_over_share_of_dense"] = AtMost(figures["over_share_of_dense"], c.bar);
    frozen_backward =
        std::max(frozen_backward, figures["frozen_backward_over_backward"].get<double>());
    if (c.num_experts != 16 || c.active != 4) continue;
    bars[name + "_gate_choice_sort_over_dense"] =
        AtMost(figures["gate_choice_sort_over_dense"], 0.03);
  }
  bars["frozen_backward_over_backward"] = AtMost(frozen_backward, 0.55);
  return bars;
}

nlohmann::json Measure(const Settings& s) {
  const std::vector<RoutedCase> cases = {
      {16, 2, true, 1.10},  {16, 4, true, 1.10},   {16, 8, true, 1.10}, {64, 16, true, 1.25},
      {64, 32, true, 1.25}, {16, 16, false, 1.02}, {16, 16, true, 1.06}};
  nlohmann::json result = MeasureCases(s, cases);
  result["d_model"] = s.width;
  result["d_ff"] = s.hidden;
  result["threads"] = s.threads;
  Settings few = s;
  few.tokens = 64;
  few.rounds = 20 * s.rounds;
  result["few_rows"] = MeasureCases(few, {{64, 32}});
  result["unpacked"] = MeasureUnpacked(s);
  result["bars"] = BarsOf(cases, result);
  return result;
}

int Run(const Settings& s) {
  if (!HasFusedFfn()) {
    std::cerr << "error: no kernels can be generated for this CPU" << std::endl;
    return 1;
  }
  omp_set_num_threads(s.threads);
  const nlohmann::json result = Measure(s);
  std::cout << result.dump(2) << std::endl;
  if (!s.json.empty()) std::ofstream(s.json) << result.dump(2) << std::endl;
  return ExitCodeOf(result["bars"]);
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  braid::Settings s;
  CLI::App app("Compare token-routed experts with the dense FFN");
  app.add_option("--tokens", s.tokens, "Tokens of a pass")->capture_default_str();
  app.add_option("--d-model", s.width, "Model width")->capture_default_str();
  app.add_option("--d-ff", s.hidden, "Hidden units of all experts")->capture_default_str();
  app.add_option("--rounds", s.rounds, "Rounds over all cases")->capture_default_str();
  app.add_option("--threads", s.threads, "Threads")->capture_default_str();
  app.add_option("--json", s.json, "File for the results");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(s);
}
