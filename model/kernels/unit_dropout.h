// Dropout of the hidden units of an FFN: which of the kernels' hidden values are dropped, and by
// what the others are multiplied. No mask is stored: the factor of unit u of a token is a pure
// function of u and of the token's key, which the kernels evaluate in registers, in the forward and
// again in the backward pass.
//
// Included where vector kernels are compiled: defines no inline functions.
#ifndef BRAID_MODEL_KERNELS_UNIT_DROPOUT_H_
#define BRAID_MODEL_KERNELS_UNIT_DROPOUT_H_

#include <cstddef>
#include <cstdint>

namespace braid {

// The steepness of the relaxed mask of concrete dropout (arXiv 1705.07832, appendix C).
inline constexpr float kConcreteTemperature = 0.1f;

// With b = DropoutBits(u, key) / 2^32:
//   kBernoulli  0 where b < rate, otherwise 1 / (1 - rate)
//   kBlock      0 where b' < rate / block of one of the units u' = u - block / 2 .. u - block / 2 +
//               block - 1 of the same span, otherwise 1 (max-pooling with stride 1)
//   kConcrete   (1 - z) / (1 - p), z = sigmoid((logit + log b - log(1 - b)) / temperature), with
//               p = sigmoid(logit) = rate
struct UnitDropout {
  enum Kind { kNone, kBernoulli, kBlock, kConcrete };

  Kind kind = kNone;
  // [T] each: the low and high halves of the tokens' keys.
  const uint32_t* key_low = nullptr;
  const uint32_t* key_high = nullptr;
  float rate = 0;
  // kBlock: units of a block, and the multiples of units that no block crosses.
  int32_t block = 1;
  int64_t span = 0;
  // kConcrete.
  float logit = 0;

  // Returns the same for tokens from `token` on.
  UnitDropout From(int64_t token) const;
};

// The hidden values of consecutive units of consecutive tokens, [units, tokens].
struct DropoutTile {
  UnitDropout dropout;  // keys of the first token
  size_t first_unit;
  size_t units;
  size_t tokens;
};

// Returns the random bits of unit `unit` of a token with this key: equidistributed, and independent
// for different units and keys for all practical purposes.
uint32_t DropoutBits(uint32_t unit, uint32_t key_low, uint32_t key_high);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_UNIT_DROPOUT_H_
