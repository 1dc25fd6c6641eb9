// Corpus jobs in child processes that die, or whose file system fails, at a chosen system call.
#ifndef BRAID_TESTS_PIPELINE_JOBS_FAULTY_JOB_H_
#define BRAID_TESTS_PIPELINE_JOBS_FAULTY_JOB_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/corpus.pb.h"

namespace braid {

// A fault at the n-th system call that changes a file of the store, counted from 1.
struct JobFault {
  int64_t call = 0;  // 0: nothing
  // If not 0: instead of killing the process, this call and all later ones except removals fail
  // with this errno.
  int error = 0;
  // If positive: the process is killed this long after its start instead.
  int64_t after_us = 0;
};

struct JobOutcome {
  bool killed = false;
  absl::Status status;
  // Every call in order, such as "rename embed.tmp/resume.json"; empty when the process was killed.
  std::vector<std::string> calls;
  // The resume points that were saved or about to be saved: "embed vectors 17".
  std::vector<std::string> points;
};

// Runs `spec` in a forked process, on the store HOME/store with chunks of `chunk_bytes`. A process
// that is killed in a writing call has written a part of the data. `prepare` runs first in the
// process. Requires: the calling process has no other threads and has not run a job itself.
JobOutcome RunJobInChild(
    const std::filesystem::path& home, const v1::CorpusSpec& spec, int64_t chunk_bytes,
    const JobFault& fault, const std::function<void()>& prepare = [] {});

// Returns the contents of all files of the store, by path relative to it.
std::map<std::string, std::string> StoreContents(const std::filesystem::path& home);

// Returns the stage of a call: "embed" for "rename embed.tmp/resume.json".
std::string StageOfCall(const std::string& call);

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_JOBS_FAULTY_JOB_H_
