#include "trainer/parallel/communicator.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// Key of the payload that marks a status known to all ranks.
constexpr char kAgreed[] = "braid/agreed";

// Each rank has a flag of its own, since one sum of all flags would not show which ranks failed.
absl::StatusOr<int> LowestFailedRank(Communicator& communicator, bool failed) {
  std::vector<double> flags(communicator.world_size());
  flags[communicator.rank()] = failed ? 1 : 0;
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(flags)));
  const auto first = std::find_if(flags.begin(), flags.end(), [](double f) { return f > 0; });
  return first == flags.end() ? -1 : static_cast<int>(first - flags.begin());
}

}  // namespace

absl::StatusOr<std::string> BroadcastText(Communicator& communicator, std::string text, int root) {
  int64_t size = static_cast<int64_t>(text.size());
  RETURN_IF_ERROR(communicator.Broadcast({reinterpret_cast<char*>(&size), sizeof(size)}, root));
  text.resize(size);
  RETURN_IF_ERROR(communicator.Broadcast(std::span<char>(text), root));
  return text;
}

absl::Status AgreeOnStatus(Communicator& communicator, const absl::Status& status) {
  ASSIGN_OR_RETURN(const int failed, LowestFailedRank(communicator, !status.ok()));
  // `failed` is the same on every rank, so either all of them join the broadcasts below or none.
  if (failed < 0) return absl::OkStatus();
  const bool mine = failed == communicator.rank();
  // EIO has the code of damage, with which a run is not restarted; a restart may succeed.
  const absl::StatusCode own_code = absl::IsDataLoss(status) && IsSystemError(status)
                                        ? absl::StatusCode::kUnavailable
                                        : status.code();
  ASSIGN_OR_RETURN(
      const std::string code,
      BroadcastText(communicator, mine ? std::to_string(static_cast<int>(own_code)) : "", failed));
  ASSIGN_OR_RETURN(const std::string message,
                   BroadcastText(communicator, mine ? std::string(status.message()) : "", failed));
  // The failing rank returns this copy too, because its own status lacks the mark.
  absl::Status agreed(static_cast<absl::StatusCode>(std::stoi(code)), message);
  agreed.SetPayload(kAgreed, absl::Cord());
  return agreed;
}

bool IsAgreed(const absl::Status& status) { return status.GetPayload(kAgreed).has_value(); }

absl::StatusOr<std::vector<uint64_t>> GatherNumbers(Communicator& communicator, uint64_t mine) {
  // Numbers travel as two halves of 32 bits, which are exact in a double.
  const int world_size = communicator.world_size();
  std::vector<double> halves(2 * world_size);
  halves[2 * communicator.rank()] = static_cast<double>(mine >> 32);
  halves[2 * communicator.rank() + 1] = static_cast<double>(mine & 0xffffffffu);
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(halves)));
  std::vector<uint64_t> numbers;
  for (int rank = 0; rank < world_size; ++rank) {
    numbers.push_back(static_cast<uint64_t>(halves[2 * rank]) << 32 |
                      static_cast<uint64_t>(halves[2 * rank + 1]));
  }
  return numbers;
}

absl::StatusOr<bool> AnyRank(Communicator& communicator, bool value) {
  double flag = value ? 1 : 0;
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(&flag, 1)));
  return flag > 0;
}

}  // namespace braid
