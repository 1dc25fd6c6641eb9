// Corpus jobs in processes of their own that die, or whose file system fails, at a chosen system
// call.
#ifndef BRAID_TESTS_PIPELINE_JOBS_FAULTY_JOB_H_
#define BRAID_TESTS_PIPELINE_JOBS_FAULTY_JOB_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/pipeline.pb.h"

namespace braid {

// What happens at the n-th system call that changes a file of the store, counted from 1.
struct JobFault {
  int64_t call = 0;  // 0: nothing
  // Instead of death, when not 0: this call and all later ones fail with this errno, except
  // removals.
  int error = 0;
  // Killed so long after the start instead, when positive.
  int64_t after_us = 0;
};

struct JobOutcome {
  bool killed = false;
  absl::Status status;
  // Every call in order, such as "rename embed.tmp/resume.json"; when not killed.
  std::vector<std::string> calls;
  // The points that were saved or about to be: "embed vectors 17".
  std::vector<std::string> points;
};

// Runs `spec` on the store HOME/store with chunks of `chunk_bytes`, in a forked process. Calls that
// write die in the midst of it. `prepare` runs in the process first. The calling process must have
// no other threads and not have run a job itself.
JobOutcome RunJobInChild(
    const std::filesystem::path& home, const v1::CorpusSpec& spec, int64_t chunk_bytes,
    const JobFault& fault, const std::function<void()>& prepare = [] {});

// Contents of all files of the store, by path below it.
std::map<std::string, std::string> StoreContents(const std::filesystem::path& home);

// "embed" of "rename embed.tmp/resume.json".
std::string StageOfCall(const std::string& call);

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_JOBS_FAULTY_JOB_H_
