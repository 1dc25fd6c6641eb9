// Bars of benchmarks: figures beside what is wanted of them.
#ifndef BRAID_TESTS_BENCH_BARS_H_
#define BRAID_TESTS_BENCH_BARS_H_

#include <iostream>
#include <nlohmann/json.hpp>

namespace braid {

// Return {"got", "at_most" or "at_least", "held"}.
inline nlohmann::json AtMost(double got, double bar) {
  return {{"got", got}, {"at_most", bar}, {"held", got <= bar}};
}
inline nlohmann::json AtLeast(double got, double bar) {
  return {{"got", got}, {"at_least", bar}, {"held", got >= bar}};
}

// Returns the exit code of a benchmark with these bars, by name: 0 if all of them hold, else 1. The
// others are named on standard error.
inline int ExitCodeOf(const nlohmann::json& bars) {
  int code = 0;
  for (const auto& [name, bar] : bars.items()) {
    if (bar.at("held").get<bool>()) continue;
    std::cerr << "missed: " << name << ": " << bar.dump() << std::endl;
    code = 1;
  }
  return code;
}

}  // namespace braid

#endif  // BRAID_TESTS_BENCH_BARS_H_
