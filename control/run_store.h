// Which runs there are and whose: HOME/runs.sqlite. How a run is doing is read from
// its run directory, so a lost data base loses no run.
//
// Several programs may have the same store open; all methods are thread-safe.
#ifndef BRAID_CONTROL_RUN_STORE_H_
#define BRAID_CONTROL_RUN_STORE_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

struct RunRecord {
  std::string id;  // "run-000001"
  std::filesystem::path run_dir;
  // Unix seconds.
  double created = 0;
  // Who launched it.
  std::string principal = {};
  // Times it was launched or resumed by hand.
  int64_t launches = 0;
  // Not settled.
  bool active = true;
};

// Who launches a run, and what of theirs may be active at a time; 0: no limit.
struct RunOwner {
  std::string principal = "local";
  int64_t ranks = 1;  // of this run
  int64_t max_runs = 0;
  int64_t max_ranks = 0;
};

class RunStore {
 public:
  // Creates HOME and the data base when missing. FailedPrecondition when HOME
  // cannot be written.
  static absl::StatusOr<std::unique_ptr<RunStore>> Open(const std::filesystem::path& home);
  ~RunStore();

  // Gives a new run its id and the directory HOME/runs/<id>, which is not
  // created; durable on return. The same `request_id` with the same `spec` bytes
  // gives the run of the first call, with other bytes AlreadyExists. An empty
  // `request_id` always gives a new run. RESOURCE_EXHAUSTED when the owner has as many
  // active runs or ranks as may be.
  absl::StatusOr<RunRecord> Create(const std::string& request_id, const std::string& spec,
                                   double now, const RunOwner& owner = {});

  // A run is active from its creation until it is settled, and again from a relaunch.
  // Oldest first.
  absl::StatusOr<std::vector<RunRecord>> Active() const;
  // Before a run that has ended is started again; its owner's limits apply.
  absl::StatusOr<RunRecord> Relaunch(const std::string& id, const RunOwner& limits = {});
  // The run has ended. No effect when it was relaunched since `record` was read.
  absl::Status Settle(const RunRecord& record);

  // NotFound names the id and what to do.
  absl::StatusOr<RunRecord> Get(const std::string& id) const;
  // Newest first: at most `limit`, older than the run `before` unless that is empty.
  absl::StatusOr<std::vector<RunRecord>> List(
      const std::string& before = "", int64_t limit = std::numeric_limits<int64_t>::max()) const;

 private:
  class Impl;
  explicit RunStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_STORE_H_
