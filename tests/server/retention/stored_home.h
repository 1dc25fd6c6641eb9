// A home with jobs and runs as their programs leave them, without running those programs.
#ifndef BRAID_TESTS_SERVER_RETENTION_STORED_HOME_H_
#define BRAID_TESTS_SERVER_RETENTION_STORED_HOME_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "braid/v1/corpus.pb.h"
#include "braid/v1/job.pb.h"
#include "braid/v1/training.pb.h"
#include "pipeline/jobs/job_store.h"
#include "tests/base/scratch_directory.h"

namespace braid {

class StoredHome {
 public:
  const std::filesystem::path& path() const { return home_.path(); }
  std::filesystem::path operator/(const std::string& name) const { return home_ / name; }

  struct JobOptions {
    // One letter for each stage output, such as "i1": the stage ingest with the key 1111...
    std::vector<std::string> outputs = {"i1", "p1"};
    std::string principal = "local";
    v1::JobState state = v1::JOB_SUCCEEDED;
    double finished = 1000;  // Unix seconds
    v1::CorpusSpec spec = {};
  };
  // Adds a job whose last output is its dataset. Returns its id.
  std::string AddJob(const JobOptions& options);
  std::string AddJob() { return AddJob(JobOptions{}); }
  // Resumes a job, which writes these outputs and fails.
  void RunAgain(const std::string& id, const std::vector<std::string>& outputs);

  struct RunOptions {
    std::filesystem::path dataset = {};
    std::string init_from = {};
    std::string principal = "local";
    bool ended = true;
    double created = 1000;
    double finished = 1000;
    std::string request_id = {};
    std::vector<int64_t> checkpoints = {10, 20};  // their steps
    int64_t keep_every_steps = 0;
    int64_t regular_steps = 0;  // checkpoint.every_steps of a run of 100 steps with ROLLBACK
    int64_t best_step = 0;      // that of the best validation, according to all checkpoints
  };
  // Adds a run with its checkpoints. Returns its id.
  std::string AddRun(const RunOptions& options);
  std::string AddRun() { return AddRun(RunOptions{}); }

  // Adds a directory of prepared data that was last used this many days ago. Returns
  // "supervised/NAME".
  std::string AddPrepared(const std::string& name, double days);

  // Returns the directory of an output, such as "i1".
  std::filesystem::path Output(const std::string& name) const;
  bool Has(const std::string& name) const { return std::filesystem::exists(home_ / name); }
  // Returns the names of what is in HOME/store and HOME/runs, sorted:
  // "store/pack-1111111111111111".
  std::vector<std::string> Directories() const;
  // Returns the ids of the jobs and runs in the databases, sorted.
  std::vector<std::string> Ids() const;

 private:
  std::string WriteOutputs(const std::string& id, const std::vector<std::string>& outputs,
                           JobStore* jobs) const;

  ScratchDirectory home_;
};

}  // namespace braid

#endif  // BRAID_TESTS_SERVER_RETENTION_STORED_HOME_H_
