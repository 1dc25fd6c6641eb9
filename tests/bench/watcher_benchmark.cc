// Measures the cost of watchers for a braidd: thousands that wait, and a thousand that never read.
//
//   braid-bench-watchers --idle 10000 --stuck 1000 --json watchers.json
//
// A real braidd serves three runs whose event logs this program writes. The first has no new events
// and is watched by the idle watchers. The second has a long log, which the stuck watchers request
// and do not read. The third gets 25 events per second, and one client measures their delay: alone,
// with the idle watchers, and with all watchers. The log of a run is polled, so half of the poll
// interval (25 ms) is part of each delay. Memory is the resident set of braidd.
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "braid/v1/training.grpc.pb.h"
#include "control/run_store.h"
#include "control/supervision/run_event_log.h"
#include "rpc/executable_path.h"
#include "tests/bench/or_exit.h"
#include "tests/server/real_braidd.h"

namespace braid {
namespace {

constexpr int kStreamsPerConnection = 500;
constexpr auto kPatience = std::chrono::seconds(60);

struct Options {
  int idle = 10000, stuck = 1000, events = 250;
  std::string json;
};

// A run without a supervisor, whose log this program writes.
struct WatchedRun {
  std::string id;
  std::unique_ptr<RunEventLog> log;

  void Add(const std::string& message) {
    v1::RunEvent event;
    event.set_time(UnixTime());
    event.set_state(log->last_number() == 0 ? v1::RUN_STARTING : v1::RUN_RUNNING);
    event.mutable_metrics()->set_step(log->last_number());
    event.set_message(message);
    OrExit(log->Append(&event));
  }
};

WatchedRun MakeRun(RunStore& store) {
  const RunRecord record = OrExit(store.Create("", "", UnixTime()));
  (void)store.Settle(record);
  std::filesystem::create_directories(record.run_dir);
  return {record.id, OrExit(RunEventLog::Open(record.run_dir / "events.jsonl"))};
}

// A watch that either reads all events or none.
class Watcher final : public grpc::ClientReadReactor<v1::RunEvent> {
 public:
  Watcher(v1::TrainingService::Stub& stub, const std::string& id, bool reads,
          std::atomic<int64_t>* num_open, std::atomic<int64_t>* num_read)
      : reads_(reads), num_open_(*num_open), num_read_(*num_read) {
    request_.set_id(id);
    stub.async()->WatchRun(&context_, &request_, this);
    AddHold();
    if (reads_) StartRead(&event_);
    StartCall();
  }
  void OnReadInitialMetadataDone(bool ok) override { num_open_ += ok ? 1 : 0; }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++num_read_;
    StartRead(&event_);
  }
  void OnDone(const grpc::Status&) override { done_ = true; }
  void End() {
    context_.TryCancel();
    RemoveHold();
  }
  bool done() const { return done_; }

 private:
  const bool reads_;
  std::atomic<int64_t>&num_open_, &num_read_;
  std::atomic<bool> done_{false};
  grpc::ClientContext context_;
  v1::WatchRunRequest request_;
  v1::RunEvent event_;
};

int64_t ResidentBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t NumThreads(pid_t pid) {
  int64_t threads = 0;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator(tasks)) ++threads;
  return threads;
}

bool WaitFor(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    poll(nullptr, 0, 5);
  }
  return false;
}

// Watchers of one run, over as many connections as they need.
class Crowd {
 public:
  Crowd(const RealBraidd& braidd, const std::string& id, int size, bool read) {
    for (int i = 0; i < size; ++i) {
      if (i % kStreamsPerConnection == 0) {
        stubs_.push_back(v1::TrainingService::NewStub(braidd.Connect()));
      }
      watchers_.push_back(std::make_unique<Watcher>(*stubs_.back(), id, read, &open_, &read_));
    }
  }
  ~Crowd() {
    for (const auto& watcher : watchers_) watcher->End();
    for (const auto& watcher : watchers_) WaitFor([&] { return watcher->done(); });
  }
  bool WaitUntilOpen() {
    return WaitFor([&] { return open_ >= std::ssize(watchers_); });
  }
  bool WaitUntilRead(int64_t events) {
    return WaitFor([&] { return read_ >= events * std::ssize(watchers_); });
  }

 private:
  std::atomic<int64_t> open_{0}, read_{0};
  std::vector<std::unique_ptr<v1::TrainingService::Stub>> stubs_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
};

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<size_t>(q * (std::ssize(values) - 1))];
}

// Measures the milliseconds from the write of an event to its arrival at the client.
nlohmann::json MeasureDelay(const RealBraidd& braidd, WatchedRun& run, int num_events) {
  const auto stub = v1::TrainingService::NewStub(braidd.Connect());
  grpc::ClientContext context;
  v1::WatchRunRequest request;
  request.set_id(run.id);
  request.set_after_event(run.log->last_number());
  const auto reader = stub->WatchRun(&context, request);
  reader->WaitForInitialMetadata();
  std::thread writer([&] {
    std::mt19937 random(1);
    for (int i = 0; i < num_events; ++i) {
      poll(nullptr, 0, 20 + static_cast<int>(random() % 41));
      run.Add("");
    }
  });
  std::vector<double> delays;
  v1::RunEvent event;
  while (std::ssize(delays) < num_events && reader->Read(&event)) {
    delays.push_back(1e3 * (UnixTime() - event.time()));
  }
  writer.join();
  context.TryCancel();
  while (reader->Read(&event)) {
  }
  reader->Finish();
  return {{"events", delays.size()},
          {"p50_ms", Quantile(delays, .5)},
          {"p99_ms", Quantile(delays, .99)},
          {"max_ms", Quantile(delays, 1)}};
}

void RaiseFileLimit() {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Sets `result`. Returns 0 if every watcher was served.
int Measure(const Options& options, RealBraidd& braidd, nlohmann::json* result) {
  const auto store = OrExit(RunStore::Open(braidd.home()));
  WatchedRun quiet = MakeRun(*store), big = MakeRun(*store), live = MakeRun(*store);
  quiet.Add("the only event");
  for (int i = 0; i < 2000; ++i) big.Add(std::string(500, 'x'));
  live.Add("");
  if (!braidd.Start()) return 1;
  const auto per = [&](int64_t before, int count) {
    return count == 0 ? 0 : (ResidentBytes(braidd.pid()) - before) / count;
  };
  (*result)["alone"] = MeasureDelay(braidd, live, options.events);
  const int64_t empty = ResidentBytes(braidd.pid());
  (*result)["resident_bytes"] = empty;
  (*result)["threads"] = NumThreads(braidd.pid());

  Crowd idle(braidd, quiet.id, options.idle, true);
  if (!idle.WaitUntilOpen() || !idle.WaitUntilRead(1)) return 1;
  (*result)["bytes_per_idle_watcher"] = per(empty, options.idle);
  (*result)["with_idle"] = MeasureDelay(braidd, live, options.events);

  const int64_t with_idle = ResidentBytes(braidd.pid());
  Crowd stuck(braidd, big.id, options.stuck, false);
  if (!stuck.WaitUntilOpen()) return 1;
  (*result)["with_idle_and_stuck"] = MeasureDelay(braidd, live, options.events);
  (*result)["bytes_per_stuck_watcher"] = per(with_idle, options.stuck);
  (*result)["threads_with_all"] = NumThreads(braidd.pid());

  const double start = UnixTime();
  quiet.Add("sent to all");
  if (!idle.WaitUntilRead(2)) return 1;
  (*result)["seconds_to_tell_all_idle"] = UnixTime() - start;
  return 0;
}

int Run(const Options& options) {
  RaiseFileLimit();
  std::string scratch = (std::filesystem::temp_directory_path() / "braid-watchers.XXXXXX").string();
  if (mkdtemp(scratch.data()) == nullptr) return 1;
  nlohmann::json result = {{"idle", options.idle}, {"stuck", options.stuck}};
  int code = 0;
  {
    RealBraidd braidd(SiblingProgram("braidd"), scratch,
                      {"--services", "training", "--quota-watches", "0"});
    code = Measure(options, braidd, &result);
  }
  std::filesystem::remove_all(scratch);
  std::cout << result.dump() << std::endl;
  if (!options.json.empty()) std::ofstream(options.json) << result.dump(2) << "\n";
  if (code != 0) std::cerr << "not every watcher was served" << std::endl;
  return code;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  CLI::App app{"Measure memory and delay of a braidd with many watchers"};
  braid::Options options;
  app.add_option("--idle", options.idle, "Watchers that wait")->capture_default_str();
  app.add_option("--stuck", options.stuck, "Watchers that never read")->capture_default_str();
  app.add_option("--events", options.events, "Events per measurement")->capture_default_str();
  app.add_option("--json", options.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(options);
}
