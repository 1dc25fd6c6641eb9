#include "client/training_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace braid {
namespace training_slots_test {

std::string HostOf(const v1::RunSpec& spec) {
  return spec.launch().hosts().empty() ? "" : spec.launch().hosts(0).host();
}

// A launcher whose runs take a few ticks each; outlives the slots, as a service does.
class FakeService : public RunLauncher {
 public:
  absl::StatusOr<v1::Run> Launch(const v1::LaunchRunRequest& request) override {
    const auto [entry, is_new] = ids_.try_emplace(request.request_id(), "");
    if (is_new) {
      entry->second = absl::StrCat("run-", ids_.size());
      v1::Run& run = runs_[entry->second];
      run.set_id(entry->second);
      *run.mutable_spec() = request.spec();
      run.set_state(v1::RUN_RUNNING);
      run.set_created_at(now_);
    }
    most_at_once_ = std::max(most_at_once_, Running());
    const std::string host = HostOf(request.spec());
    most_of_host_[host] = std::max(most_of_host_[host], RunningOn(host));
    return runs_[entry->second];
  }
  absl::StatusOr<v1::Run> Get(const std::string& id) override {
    if (down_) return absl::UnavailableError("the service is away");
    return runs_[id];
  }
  absl::StatusOr<v1::Run> Resume(const std::string& id) override {
    ++num_resumed_;
    runs_[id].set_state(v1::RUN_RUNNING);
    return runs_[id];
  }

  // Advances time by one second: a run succeeds or fails after num_steps seconds.
  void Tick() {
    now_ += 1;
    for (auto& [id, run] : runs_) {
      if (run.state() != v1::RUN_RUNNING) continue;
      run.mutable_latest()->set_step(++seconds_[id]);
      if (seconds_[id] < run.spec().num_steps()) continue;
      const bool fails = run.spec().name() == "fails";
      run.set_state(fails ? v1::RUN_FAILED : v1::RUN_SUCCEEDED);
      run.set_finished_at(now_);
    }
  }
  void StopAll() {
    for (auto& [id, run] : runs_) {
      if (run.state() == v1::RUN_RUNNING) run.set_state(v1::RUN_STOPPED);
    }
  }
  void Sleep(double seconds) { now_ += seconds; }
  void set_down(bool down) { down_ = down; }
  int64_t Running() const {
    return std::ranges::count_if(
        runs_, [](const auto& entry) { return entry.second.state() == v1::RUN_RUNNING; });
  }
  int64_t RunningOn(const std::string& host) const {
    return std::ranges::count_if(runs_, [&](const auto& entry) {
      return entry.second.state() == v1::RUN_RUNNING && HostOf(entry.second.spec()) == host;
    });
  }
  int64_t most_at_once() const { return most_at_once_; }
  int64_t most_of_host(const std::string& host) { return most_of_host_[host]; }
  int num_resumed() const { return num_resumed_; }
  size_t num_launched() const { return runs_.size(); }
  double now() const { return now_; }

 private:
  double now_ = 0;
  bool down_ = false;
  std::map<std::string, std::string> ids_;
  std::map<std::string, v1::Run> runs_;
  std::map<std::string, int64_t> seconds_;
  int64_t most_at_once_ = 0;
  std::map<std::string, int64_t> most_of_host_;
  int num_resumed_ = 0;
};

std::vector<TrainingTask> Tasks(const std::vector<int64_t>& seconds, double planned = 10) {
  std::vector<TrainingTask> tasks;
  for (const int64_t each : seconds) {
    TrainingTask& task =
        tasks.emplace_back(TrainingTask{.request = {}, .planned_seconds = planned});
    task.request.set_request_id(absl::StrCat("task-", tasks.size()));
    task.request.mutable_spec()->set_num_steps(each);
  }
  return tasks;
}

void RunToTheEnd(TrainingSlots& slots, FakeService& service) {
  for (int i = 0; i < 1000 && !slots.done(); ++i) {
    ASSERT_TRUE(slots.Advance().ok());
    service.Tick();
  }
  EXPECT_TRUE(slots.done());
}

TEST(TrainingSlotsTest, KeepsAllSlotsBusy) {
  FakeService service;
  TrainingSlots slots(service, Tasks({5, 3, 4, 2, 6}), 2);
  RunToTheEnd(slots, service);
  EXPECT_EQ(service.most_at_once(), 2);
  EXPECT_EQ(service.num_launched(), 5);
  EXPECT_TRUE(slots.Failed().empty());
  for (size_t task = 0; task < 5; ++task) EXPECT_EQ(slots.run(task).state(), v1::RUN_SUCCEEDED);
}

// The first task goes to the first host.
std::vector<TrainingTask> TasksOn(const std::vector<std::string>& hosts,
                                  const std::vector<int64_t>& seconds) {
  std::vector<TrainingTask> tasks = Tasks(seconds);
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (hosts[i].empty()) continue;
    tasks[i].request.mutable_spec()->mutable_launch()->add_hosts()->set_host(hosts[i]);
  }
  return tasks;
}

TEST(TrainingSlotsTest, SlotsOfAHostTakeItsRunsOnly) {
  FakeService service;
  // Runs alternate between the hosts, but those of "a" take longer.
  TrainingSlots slots(service, TasksOn({"a", "b", "a", "b", "a", "b", ""}, {9, 2, 9, 2, 9, 2, 1}),
                      SlotsByHost{{"a", 1}, {"b", 2}, {"", 1}});
  ASSERT_TRUE(slots.Advance().ok());
  EXPECT_EQ(slots.active(), (std::set<size_t>{0, 1, 3, 6}));
  EXPECT_DOUBLE_EQ(slots.SecondsLeft(), 30);
  service.Tick();
  service.Tick();
  ASSERT_TRUE(slots.Advance().ok());
  EXPECT_EQ(slots.active(), (std::set<size_t>{0, 5}));
  RunToTheEnd(slots, service);
  EXPECT_EQ(service.most_of_host("a"), 1);
  EXPECT_EQ(service.most_of_host("b"), 2);
  EXPECT_EQ(service.most_of_host(""), 1);
  // The time of "a" and the tick after its end.
  EXPECT_EQ(service.now(), 3 * 9 + 1);
}

TEST(TrainingSlotsTest, SlotsWithoutHostsTakeAllRuns) {
  FakeService service;
  TrainingSlots slots(service, TasksOn({"a", "a", "b"}, {3, 3, 3}), 2);
  ASSERT_TRUE(slots.Advance().ok());
  EXPECT_EQ(slots.active(), (std::set<size_t>{0, 1}));
}

TEST(TrainingSlotsDeathTest, EveryHostNeedsASlot) {
  FakeService service;
  EXPECT_DEATH(TrainingSlots(service, TasksOn({"a", "b"}, {1, 1}), SlotsByHost{{"a", 1}}),
               "no slot for host 'b'");
}

TEST(TrainingSlotsTest, ContinuesAfterAnInterruption) {
  FakeService service;
  {
    TrainingSlots slots(service, Tasks({2, 9, 9, 2}), 2);
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(slots.Advance().ok());
      service.Tick();
    }
    ASSERT_FALSE(slots.done());
  }
  service.StopAll();
  TrainingSlots slots(service, Tasks({2, 9, 9, 2}), 2);
  RunToTheEnd(slots, service);
  EXPECT_EQ(service.num_launched(), 4);
  EXPECT_EQ(service.num_resumed(), 2);
}

TEST(TrainingSlotsTest, OtherRunsContinueAfterAFailure) {
  FakeService service;
  std::vector<TrainingTask> tasks = Tasks({2, 2, 2});
  tasks[1].request.mutable_spec()->set_name("fails");
  TrainingSlots slots(service, tasks, 1);
  RunToTheEnd(slots, service);
  EXPECT_EQ(slots.Failed(), std::vector<size_t>{1});
  EXPECT_EQ(slots.run(2).state(), v1::RUN_SUCCEEDED);
  EXPECT_EQ(service.num_resumed(), 0);
}

// Returns tasks of which the last ones wait for the run of the first, whose id they name.
std::vector<TrainingTask> TasksAfterTheFirst(const std::vector<int64_t>& seconds, size_t waiting) {
  std::vector<TrainingTask> tasks = Tasks(seconds);
  for (size_t i = tasks.size() - waiting; i < tasks.size(); ++i) {
    tasks[i].after = 0;
    tasks[i].request_after = [request = tasks[i].request](const v1::Run& before) mutable {
      EXPECT_EQ(before.state(), v1::RUN_SUCCEEDED);
      request.mutable_spec()->set_init_from(before.id());
      return request;
    };
  }
  return tasks;
}

TEST(TrainingSlotsTest, TasksWaitForTheRunThatTheyStartFrom) {
  FakeService service;
  TrainingSlots slots(service, TasksAfterTheFirst({5, 3, 6, 2, 2}, 2), 2);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(slots.Advance().ok());
    EXPECT_FALSE(slots.active().contains(3)) << i;
    service.Tick();
  }
  EXPECT_TRUE(slots.active().contains(2));  // Others take the slots meanwhile.
  ASSERT_TRUE(slots.Advance().ok());
  EXPECT_TRUE(slots.active().contains(3));
  RunToTheEnd(slots, service);
  EXPECT_EQ(slots.run(3).spec().init_from(), "run-1");
  EXPECT_EQ(slots.run(4).state(), v1::RUN_SUCCEEDED);
}

// Otherwise a slot may be idle at the end, until the last of them is done.
TEST(TrainingSlotsTest, RunsThatOthersWaitForStartFirst) {
  FakeService service;
  std::vector<TrainingTask> tasks = TasksAfterTheFirst({2, 1, 1, 2, 1}, 4);
  tasks[3].after.reset();
  tasks[4].after = 3;
  TrainingSlots slots(service, tasks, 1);
  RunToTheEnd(slots, service);
  EXPECT_EQ(slots.run(0).id(), "run-1");
  EXPECT_EQ(slots.run(3).id(), "run-2");
  EXPECT_EQ(slots.run(1).id(), "run-3");
  EXPECT_EQ(slots.run(4).id(), "run-5");
}

TEST(TrainingSlotsTest, TasksAfterARunThatFailedNeverStart) {
  FakeService service;
  std::vector<TrainingTask> tasks = TasksAfterTheFirst({2, 4, 2, 2}, 2);
  tasks[0].request.mutable_spec()->set_name("fails");
  tasks[3].after = 2;  // Waits for one that never starts.
  TrainingSlots slots(service, tasks, 2);
  RunToTheEnd(slots, service);
  EXPECT_EQ(slots.Failed(), std::vector<size_t>{0});
  EXPECT_EQ(service.num_launched(), 2);
  EXPECT_EQ(slots.run(2).id(), "");
  EXPECT_EQ(slots.run(3).id(), "");
}

TEST(TrainingSlotsTest, ContinuesAfterAnErrorOfTheService) {
  FakeService service;
  TrainingSlots slots(service, Tasks({3, 3}), 1);
  ASSERT_TRUE(slots.Advance().ok());
  service.set_down(true);
  EXPECT_EQ(slots.Advance().code(), absl::StatusCode::kUnavailable);
  service.set_down(false);
  RunToTheEnd(slots, service);
}

TEST(TrainingSlotsTest, TimeLeftUsesMeasuredDurations) {
  FakeService service;
  TrainingSlots slots(service, Tasks({20, 20, 20, 20}), 2);
  EXPECT_DOUBLE_EQ(slots.SecondsLeft(), 20);
  ASSERT_TRUE(slots.Advance().ok());
  for (int i = 0; i < 20; ++i) service.Tick();
  ASSERT_TRUE(slots.Advance().ok());
  // Runs take twice the planned time, and two more have just started.
  EXPECT_DOUBLE_EQ(slots.SecondsLeft(), 20);
  RunToTheEnd(slots, service);
  EXPECT_DOUBLE_EQ(slots.SecondsLeft(), 0);
}

TEST(TrainingSlotsTest, TimeLeftIgnoresResumedRuns) {
  FakeService service;
  {
    TrainingSlots slots(service, Tasks({20, 20, 20}), 1);
    ASSERT_TRUE(slots.Advance().ok());
    service.Tick();
  }
  service.StopAll();
  service.Sleep(12 * 3600);
  TrainingSlots slots(service, Tasks({20, 20, 20}), 1);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(slots.Advance().ok());
    service.Tick();
  }
  ASSERT_TRUE(slots.Advance().ok());
  ASSERT_EQ(slots.active(), std::set<size_t>{1});
  EXPECT_DOUBLE_EQ(slots.SecondsLeft(), 20);
  for (int i = 0; i < 20; ++i) service.Tick();
  ASSERT_TRUE(slots.Advance().ok());
  // The second run was started here and took twice the planned time.
  EXPECT_DOUBLE_EQ(slots.SecondsLeft(), 20);
  EXPECT_EQ(service.num_resumed(), 1);
}

TEST(TrainingSlotsTest, TimeLeftIgnoresRunsStartedEarlier) {
  FakeService service;
  {
    TrainingSlots slots(service, Tasks({2, 20, 20}), 1);
    ASSERT_TRUE(slots.Advance().ok());
    service.Tick();
    service.Sleep(3600);
  }
  TrainingSlots slots(service, Tasks({2, 20, 20}), 1);
  ASSERT_TRUE(slots.Advance().ok());
  service.Tick();
  ASSERT_TRUE(slots.Advance().ok());
  EXPECT_EQ(slots.run(0).state(), v1::RUN_SUCCEEDED);
  EXPECT_DOUBLE_EQ(slots.SecondsLeft(), 20);
}

}  // namespace training_slots_test
}  // namespace braid
