// A home directory, a packed dataset and an mpirun that starts one rank, for
// tests of the control plane.
#ifndef BRAID_TESTS_CONTROL_CONTROL_FIXTURE_H_
#define BRAID_TESTS_CONTROL_CONTROL_FIXTURE_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "control/control_service.h"
#include "control/launch/launch_lock.h"
#include "control/launch/launcher.h"

namespace braid {

class ControlFixture : public testing::Test {
 protected:
  ControlFixture() {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(testing::TempDir()) /
            absl::StrCat("braid-", info->test_suite_name(), "-", info->name(), "-", getpid());
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "dataset");
    Write(root_ / "dataset/dataset.json",
          R"({"sequence_length":64,"vocab_size":512,"eos_id":2,"num_instances":40,)"
          R"("num_tokens":2600,"domains":["code"],"order":"SIMILARITY","name":"toy","key":"k",)"
          R"("num_documents":9,"num_heldout_documents":1,"seed":0})");
    Write(root_ / "dataset/tokenizer.model", "tokens");
    // Skips mpirun's own options and becomes the rank.
    Write(root_ / "mpirun", "#!/bin/sh\nwhile [ \"$2\" != train ]; do shift; done\nexec \"$@\"\n");
    std::filesystem::permissions(root_ / "mpirun", std::filesystem::perms::owner_all);
  }
  ~ControlFixture() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  ControlOptions Options() const {
    return {.home = root_ / "home",
            .trainer_binary = BRAID_FAKE_TRAINER,
            .supervisor_binary = BRAID_FAKE_SUPERVISOR,
            .mpirun = (root_ / "mpirun").string()};
  }

  v1::RunSpec Spec(const std::string& name) const {
    v1::RunSpec spec;
    spec.set_name(name);
    spec.set_dataset_dir((root_ / "dataset").string());
    spec.mutable_model()->mutable_routing()->set_segment_length(16);
    spec.set_threads_per_rank(1);
    return spec;
  }

  static void Write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  static bool Eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      if (condition()) return true;
      poll(nullptr, 0, 5);
    }
    return false;
  }

  std::filesystem::path root_;
};

// Starts or submits a run as the service does.
inline absl::Status StartRun(const LauncherPrograms& programs, const RunDirectory& run) {
  ASSIGN_OR_RETURN(const FileLock lock, LockLaunch(run));
  return StartLockedRun(programs, run);
}

}  // namespace braid

#endif  // BRAID_TESTS_CONTROL_CONTROL_FIXTURE_H_
