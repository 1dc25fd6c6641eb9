// The heartbeats of ranks, as tests set them.
#ifndef BRAID_TESTS_CONTROL_SUPERVISION_FAKE_RANKS_H_
#define BRAID_TESTS_CONTROL_SUPERVISION_FAKE_RANKS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Two ranks per host "h0", "h1", ..., which send a heartbeat once a second.
class FakeRanks {
 public:
  explicit FakeRanks(int count) : beats_(count) {
    for (int rank = 0; rank < count; ++rank) {
      beats_[rank].set_rank(rank);
      beats_[rank].set_host(absl::StrCat("h", rank / 2));
      beats_[rank].set_nonce("n");
      beats_[rank].set_phase("communication");
    }
  }
  v1::Heartbeat& operator[](int rank) { return beats_[rank]; }

  // All ranks except `silent` send a heartbeat at `now` with `step`.
  std::vector<v1::Heartbeat>& Beat(double now, int64_t step, std::vector<int> silent = {}) {
    for (v1::Heartbeat& beat : beats_) {
      if (std::count(silent.begin(), silent.end(), beat.rank())) continue;
      beat.set_time(1e9 + 977 * beat.rank() + now);  // clocks of hosts differ
      beat.set_step(step);
    }
    return beats_;
  }

 private:
  std::vector<v1::Heartbeat> beats_;
};

}  // namespace braid

#endif  // BRAID_TESTS_CONTROL_SUPERVISION_FAKE_RANKS_H_
