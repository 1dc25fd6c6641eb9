// Vectors of length 1, whose inner product is their cosine similarity.
#ifndef BRAID_RETRIEVAL_UNIT_LENGTH_H_
#define BRAID_RETRIEVAL_UNIT_LENGTH_H_

#include <cmath>
#include <cstddef>
#include <span>

namespace braid {

// Writes `values` divided by their L2 norm to `vector`, which has as many and may be the same
// memory; zeros if all values are 0. Computes in double precision.
template <class Value>
void ScaleToUnitLength(std::span<const Value> values, std::span<float> vector) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (size_t i = 0; i < values.size(); ++i) {
    vector[i] = static_cast<float>(static_cast<double>(values[i]) * scale);
  }
}

}  // namespace braid

#endif  // BRAID_RETRIEVAL_UNIT_LENGTH_H_
