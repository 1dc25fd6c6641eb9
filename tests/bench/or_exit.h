// Errors of benchmarks. Whatever the options, the files or the machine can cause ends the program
// with a message and exit code 1.
#ifndef BRAID_TESTS_BENCH_OR_EXIT_H_
#define BRAID_TESTS_BENCH_OR_EXIT_H_

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

inline void OrExit(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "error: " << status.message() << std::endl;
  std::exit(1);
}

// Returns the value, or ends the program with its error.
template <class T>
T OrExit(absl::StatusOr<T> value) {
  OrExit(value.status());
  return *std::move(value);
}

}  // namespace braid

#endif  // BRAID_TESTS_BENCH_OR_EXIT_H_
