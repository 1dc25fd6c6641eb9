#include "trainer/weight_check.h"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// Returns one hash per parameter, of its elements within `part` of trained_values().
std::vector<uint64_t> Hashes(LanguageModel& model, Shard part) {
  const std::span<Parameter> parameters = model.parameters();
  const float* const values = model.trained_values().data();
  const int64_t count = static_cast<int64_t>(parameters.size());
  std::vector<uint64_t> hashes(count);
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) {
    if (parameters[i].gradient.empty()) continue;
    const auto offset = static_cast<size_t>(parameters[i].value.data() - values);
    const size_t begin = std::clamp(offset, part.begin, part.end);
    const size_t end = std::clamp(offset + parameters[i].value.size(), part.begin, part.end);
    hashes[i] = XXH3_64bits(values + begin, (end - begin) * sizeof(float));
  }
  return hashes;
}

bool AllEqual(const std::vector<uint64_t>& numbers) {
  return std::ranges::count(numbers, numbers[0]) == static_cast<int64_t>(numbers.size());
}

// Returns the most frequent number; among several, that of the lowest rank.
uint64_t MostFrequent(const std::vector<uint64_t>& numbers) {
  return *std::ranges::max_element(
      numbers, {}, [&](uint64_t number) { return std::ranges::count(numbers, number); });
}

std::string Hex(uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

// Returns the error for one parameter whose hashes, given by rank, are not all equal.
absl::Status Difference(int64_t step, const std::string& name,
                        const std::vector<uint64_t>& hashes) {
  const uint64_t expected = MostFrequent(hashes);
  std::vector<std::string> others;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == expected) continue;
    others.push_back(absl::StrCat("rank ", rank, " (hash ", Hex(hashes[rank]), ")"));
  }
  const auto reference = std::ranges::find(hashes, expected) - hashes.begin();
  return absl::AbortedError(absl::StrCat(
      "after step ", step, " the weights differ between ranks: ", name, " on ",
      absl::StrJoin(others, ", "), " differs from rank ", reference, " (hash ", Hex(expected), ")",
      hashes.size() == 2 ? " (with two ranks, either may be wrong)" : "",
      "; check that machine's memory and network, then resume from the newest checkpoint"));
}

}  // namespace

// Two rounds keep the usual case cheap. Round 1 exchanges a single hash of all hashes. Only when
// these differ does round 2 exchange the hashes parameter by parameter, until the first that
// differs; every rank sees the same numbers and so leaves the loop at the same parameter.
absl::Status CompareWeights(int64_t step, LanguageModel& model, Communicator& communicator) {
  if (communicator.world_size() == 1) return absl::OkStatus();
  const std::vector<uint64_t> mine = Hashes(model, {0, model.trained_values().size()});
  const uint64_t together = XXH3_64bits(mine.data(), mine.size() * sizeof(uint64_t));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> all, GatherNumbers(communicator, together));
  if (AllEqual(all)) return absl::OkStatus();
  for (size_t i = 0; i < mine.size(); ++i) {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> hashes, GatherNumbers(communicator, mine[i]));
    if (!AllEqual(hashes)) return Difference(step, model.parameters()[i].name, hashes);
  }
  return absl::InternalError(
      "the combined hashes of the weights differ between ranks, but those of the parameters do "
      "not");
}

void OwnWeights::Remember(TrainingState& state) {
  part_ = state.moments;
  hashes_.clear();
  if (part_.size() < state.model->trained_values().size()) hashes_ = Hashes(*state.model, part_);
}

absl::Status OwnWeights::Check(TrainingState& state, int rank) const {
  if (hashes_.empty()) return absl::OkStatus();
  const std::vector<uint64_t> now = Hashes(*state.model, part_);
  const auto [then, changed] = std::ranges::mismatch(hashes_, now);
  if (changed == now.end()) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("after step ", state.step, " the weights changed outside an update: ",
                   state.model->parameters()[changed - now.begin()].name, " on rank ", rank,
                   " (hash ", Hex(*changed), ") differs from what was written (hash ", Hex(*then),
                   "); check that machine's memory, then resume from the newest checkpoint"));
}

}  // namespace braid
