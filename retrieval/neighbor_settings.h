// The configuration of a neighbor search with its defaults filled in.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_SETTINGS_H_
#define BRAID_RETRIEVAL_NEIGHBOR_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"

namespace braid {

// The index string of exact search.
inline constexpr char kExactIndex[] = "Flat";

struct NeighborSettings {
  int32_t k = 0;
  int64_t recall_sample = 0;
  std::string index;       // never "auto"
  int64_t num_probes = 0;  // 0: chosen by recall

  // Errors: INVALID_ARGUMENT for a number that is set and below 1, or k above 10,000.
  static absl::StatusOr<NeighborSettings> Resolve(const v1::NeighborConfig& asked, int64_t n,
                                                  int32_t d);
};

// Returns the index string that "auto" stands for; "Flat" means exact search. `sharded`: the
// vectors are divided among the memory of several servers, so they are not compressed however many
// there are.
std::string AutomaticIndex(int64_t n, int32_t d, bool sharded = false);

// Returns whether `config` finds other neighbors because it names servers, that is, whether "auto"
// then stands for another index.
bool DependsOnSharding(const v1::NeighborConfig& config, int64_t n);

// Returns the number of lists of "IVF<lists>,Flat"; nullopt for any other index string.
std::optional<int64_t> PlainListsOf(const std::string& index);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SETTINGS_H_
