// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014): the
// random numbers of initial weights, data order and sampling. Pure functions with the same results
// on every machine. Passes BigCrush with any seed; not for secrets.
#ifndef BRAID_BASE_SPLITMIX_H_
#define BRAID_BASE_SPLITMIX_H_

#include <cstdint>
#include <string_view>

namespace braid {

// The increment of the state from one number to the next: 2^64 divided by the golden ratio.
inline constexpr uint64_t kGolden64 = 0x9E3779B97F4A7C15u;

// Applies the output function of the generator: a bijection that mixes all bits and maps 0 to 0.
inline uint64_t Scramble64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Returns the next number of the sequence whose state is `*state` and advances the state. Any seed
// is a valid initial state.
inline uint64_t NextSplitMix64(uint64_t* state) { return Scramble64(*state += kGolden64); }

// Hashes one number: a bijection of the 64-bit integers whose outputs look random.
inline uint64_t Mix64(uint64_t x) { return Scramble64(x + kGolden64); }

// Hashes a pair of numbers; the order matters.
inline uint64_t Mix64(uint64_t a, uint64_t b) { return Mix64(Mix64(a) ^ b); }

// Hashes a text, its length included.
inline uint64_t Mix64(uint64_t seed, std::string_view text) {
  uint64_t hash = Mix64(seed, text.size());
  for (unsigned char c : text) hash = Mix64(hash, c);
  return hash;
}

// Maps 64 random bits to a number that is uniform in [0, 1), from the top 53 bits.
inline double UnitInterval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace braid

#endif  // BRAID_BASE_SPLITMIX_H_
