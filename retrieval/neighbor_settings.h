// How neighbours are searched: the configuration with its defaults filled in.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_SETTINGS_H_
#define BRAID_RETRIEVAL_NEIGHBOR_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"

namespace braid {

// The index string of exact search.
inline constexpr char kExactIndex[] = "Flat";

struct NeighborSettings {
  int32_t k = 0;
  int64_t recall_sample = 0;
  std::string index;       // never "auto"
  int64_t num_probes = 0;  // 0: by recall

  // INVALID_ARGUMENT: a negative number, or k above 10,000.
  static absl::StatusOr<NeighborSettings> Resolve(const v1::NeighborConfig& config, int64_t n,
                                                  int32_t d);
};

// The index that "auto" stands for; "Flat" means exact search. `sharded`: over the memory of
// several servers, so that vectors need not be compressed however many there are.
std::string AutomaticIndex(int64_t n, int32_t d, bool sharded = false);

// Whether `config` finds other neighbours because it names servers: where "auto" then
// stands for another index.
bool DependsOnSharding(const v1::NeighborConfig& config, int64_t n);

// The number of lists of "IVF<lists>,Flat"; nullopt for any other index string.
std::optional<int64_t> PlainListsOf(const std::string& index);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SETTINGS_H_
