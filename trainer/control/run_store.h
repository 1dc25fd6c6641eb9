// Which runs there are: HOME/runs.sqlite. Only names are kept here; how a run is
// doing is read from its run directory, so a lost data base loses no run.
//
// Several programs may have the same store open; all methods are thread-safe.
#ifndef BRAID_TRAINER_CONTROL_RUN_STORE_H_
#define BRAID_TRAINER_CONTROL_RUN_STORE_H_

#include <filesystem>
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
  // `request_id` always gives a new run.
  absl::StatusOr<RunRecord> Create(const std::string& request_id, const std::string& spec,
                                   double now);

  // NotFound names the id and what to do.
  absl::StatusOr<RunRecord> Get(const std::string& id) const;
  // Newest first.
  absl::StatusOr<std::vector<RunRecord>> List() const;

 private:
  class Impl;
  explicit RunStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_RUN_STORE_H_
