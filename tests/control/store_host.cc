// One of several hosts over one HOME, as a program: launches N runs and submits N jobs under the
// request ids 0 to N - 1, and prints "REQUEST RUN JOB" for each. Between two requests it increases
// a counter in a file under a FileLock, so that a lock that does not exclude loses counts.
//
//   store_host HOME N [STATE]
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "base/check.h"
#include "base/file_lock.h"
#include "control/run_store.h"
#include "pipeline/jobs/job_store.h"

namespace {

void CountUnderLock(const std::filesystem::path& home) {
  const auto lock = braid::FileLock::Take(home / "counter.lock");
  BRAID_CHECK(lock.ok()) << std::string(lock.status().message());
  const int descriptor = open((home / "counter").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  int64_t count = 0;
  // A new file is empty. One write, since this program is killed by the test.
  BRAID_CHECK(pread(descriptor, &count, sizeof(count), 0) >= 0) << "counter";
  ++count;
  BRAID_CHECK(pwrite(descriptor, &count, sizeof(count), 0) == sizeof(count)) << "counter";
  close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) return 2;
  const std::filesystem::path home = argv[1], state = argc == 4 ? argv[3] : argv[1];
  const auto runs = braid::RunStore::Open(home, state);
  const auto jobs = braid::JobStore::Open(state);
  for (const absl::Status& status : {runs.status(), jobs.status()}) {
    if (status.ok()) continue;
    std::cerr << status.message() << std::endl;
    return 1;
  }
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    const std::string request = "request-" + std::to_string(i);
    const auto run = (*runs)->Create(request, "spec", i);
    braid::v1::CorpusSpec spec;
    spec.set_name(request);
    const auto job = (*jobs)->Submit(spec, request);
    BRAID_CHECK(run.ok()) << std::string(run.status().message());
    BRAID_CHECK(job.ok()) << std::string(job.status().message());
    CountUnderLock(home);
    std::cout << request << " " << run->id << " " << job->id() << std::endl;
  }
  return 0;
}
