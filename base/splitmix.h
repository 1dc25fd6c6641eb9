// SplitMix64 (Steele, Lea, Flood 2014): the random numbers of initial weights,
// data order and sampling. Pure functions, the same on every machine.
#ifndef BRAID_BASE_SPLITMIX_H_
#define BRAID_BASE_SPLITMIX_H_

#include <cstdint>
#include <string_view>

namespace braid {

// What the state grows by between two numbers.
inline constexpr uint64_t kGolden64 = 0x9E3779B97F4A7C15u;

// The output function: a bijection that scrambles all bits, but keeps 0.
inline uint64_t Scramble64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A bijection of the 64-bit integers whose outputs look random.
inline uint64_t Mix64(uint64_t x) { return Scramble64(x + kGolden64); }

inline uint64_t Mix64(uint64_t a, uint64_t b) { return Mix64(Mix64(a) ^ b); }

// A hash of text.
inline uint64_t Mix64(uint64_t seed, std::string_view text) {
  uint64_t hash = Mix64(seed, text.size());
  for (unsigned char c : text) hash = Mix64(hash, c);
  return hash;
}

// Uniform in [0, 1): the top 53 bits.
inline double UnitInterval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace braid

#endif  // BRAID_BASE_SPLITMIX_H_
