#include "trainer/weight_check.h"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

std::vector<uint64_t> Hashes(std::span<const Parameter> parameters) {
  std::vector<uint64_t> hashes;
  for (const Parameter& p : parameters) {
    hashes.push_back(XXH3_64bits(p.value.data(), p.value.size_bytes()));
  }
  return hashes;
}

bool AllEqual(const std::vector<uint64_t>& numbers) {
  return std::ranges::count(numbers, numbers[0]) == static_cast<int64_t>(numbers.size());
}

// Of several equally frequent ones, that of the lowest rank.
uint64_t MostFrequent(const std::vector<uint64_t>& numbers) {
  return *std::ranges::max_element(
      numbers, {}, [&](uint64_t number) { return std::ranges::count(numbers, number); });
}

std::string Hex(uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

// One parameter's hashes by rank, which are not all the same.
absl::Status Difference(int64_t step, const std::string& name,
                        const std::vector<uint64_t>& hashes) {
  const uint64_t expected = MostFrequent(hashes);
  std::vector<std::string> others;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == expected) continue;
    others.push_back(absl::StrCat("rank ", rank, " (hash ", Hex(hashes[rank]), ")"));
  }
  const auto reference = std::ranges::find(hashes, expected) - hashes.begin();
  return absl::DataLossError(absl::StrCat(
      "after step ", step, " the weights are not the same on all ranks: ", name, " on ",
      absl::StrJoin(others, ", "), " differs from rank ", reference, " (hash ", Hex(expected), ")",
      hashes.size() == 2 ? ", and of two ranks either may be wrong" : "",
      "; suspect that machine's memory or network, and resume from the newest checkpoint"));
}

}  // namespace

absl::Status CompareWeights(int64_t step, LanguageModel& model, Communicator& communicator) {
  if (communicator.world_size() == 1) return absl::OkStatus();
  const std::vector<uint64_t> mine = Hashes(model.parameters());
  const uint64_t together = XXH3_64bits(mine.data(), mine.size() * sizeof(uint64_t));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> all, GatherNumbers(communicator, together));
  if (AllEqual(all)) return absl::OkStatus();
  for (size_t i = 0; i < mine.size(); ++i) {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> hashes, GatherNumbers(communicator, mine[i]));
    if (!AllEqual(hashes)) return Difference(step, model.parameters()[i].name, hashes);
  }
  return absl::InternalError(
      "hashes of the weights differ between ranks, those of parameters do not");
}

}  // namespace braid
