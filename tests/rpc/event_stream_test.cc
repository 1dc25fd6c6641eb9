#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "braid/v1/pipeline.grpc.pb.h"
#include "rpc/grpc_event_stream.h"

namespace braid {
namespace event_stream_test {

using testing::HasSubstr;
using ServiceBase = v1::PipelineService::WithCallbackMethod_WatchJob<v1::PipelineService::Service>;

// The events of one job, in memory.
struct Log {
  std::mutex mutex;
  std::vector<std::string> messages;
  bool ended = false;
  std::atomic<int64_t> num_reads{0};

  void Add(const std::string& message) {
    std::lock_guard lock(mutex);
    messages.push_back(message);
  }
  void End() {
    std::lock_guard lock(mutex);
    ended = true;
  }
};

class LogSource final : public EventSource<v1::JobEvent> {
 public:
  explicit LogSource(Log* log) : log_(*log) {}
  uint64_t Version() override {
    std::lock_guard lock(log_.mutex);
    return log_.messages.size() + (log_.ended ? 1 : 0);
  }
  absl::StatusOr<EventBatch<v1::JobEvent>> After(int64_t number) override {
    ++log_.num_reads;
    std::lock_guard lock(log_.mutex);
    EventBatch<v1::JobEvent> batch;
    const int64_t size = std::ssize(log_.messages);
    for (int64_t bytes = 0; number < size && bytes < kEventBatchBytes; ++number) {
      batch.events.emplace_back().set_number(number + 1);
      batch.events.back().set_message(log_.messages[number]);
      bytes += std::ssize(log_.messages[number]);
    }
    batch.last = log_.ended && number >= size;
    return batch;
  }

 private:
  Log& log_;
};

class LogService final : public ServiceBase {
 public:
  LogService(std::map<std::string, Log>* logs, const EventStreamOptions& options)
      : streams_(
            [logs](const std::string& id)
                -> absl::StatusOr<std::unique_ptr<EventSource<v1::JobEvent>>> {
              const auto found = logs->find(id);
              if (found == logs->end()) return absl::NotFoundError("no job " + id);
              return std::make_unique<LogSource>(&found->second);
            },
            options) {}
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(grpc::CallbackServerContext* context,
                                                   const v1::WatchJobRequest* request) override {
    return streams_.Watch(context, request->id(), request->after_event());
  }
  void Notify() { streams_.Notify(); }

 private:
  EventStreams<v1::JobEvent> streams_;
};

// A client's call; ends when destroyed.
class Watch {
 public:
  Watch(v1::PipelineService::Stub& stub, const std::string& id, int64_t after) {
    v1::WatchJobRequest request;
    request.set_id(id);
    request.set_after_event(after);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    reader_ = stub.WatchJob(&context_, request);
  }
  ~Watch() {
    if (reader_ != nullptr) Cancel();
  }
  bool Read(v1::JobEvent* event) { return reader_->Read(event); }
  void WaitUntilWatching() { reader_->WaitForInitialMetadata(); }
  grpc::Status Finish() { return std::exchange(reader_, nullptr)->Finish(); }
  void Cancel() {
    context_.TryCancel();
    v1::JobEvent rest;
    while (reader_->Read(&rest)) {
    }
    Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> reader_;
};

class EventStreamTest : public testing::Test {
 protected:
  ~EventStreamTest() override { Shutdown(); }

  // Polls rarely, so that prompt events must result from notifications.
  void Start(const EventStreamOptions& options = {.poll_interval = std::chrono::seconds(30)}) {
    service_ = std::make_unique<LogService>(&logs_, options);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = Connect();
  }
  void Shutdown() {
    stub_.reset();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
    service_.reset();
  }
  std::unique_ptr<v1::PipelineService::Stub> Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // Limits the read-ahead of the client, which would otherwise accept megabytes that it has not
    // requested.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return v1::PipelineService::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials(), arguments));
  }
  void Fill(Log& log, int count, const std::string& text) {
    for (int i = 0; i < count; ++i) log.Add(text + std::to_string(i));
  }

  std::map<std::string, Log> logs_;
  int port_ = 0;
  std::unique_ptr<LogService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::PipelineService::Stub> stub_;
};

TEST_F(EventStreamTest, SendsEventsInOrderAndEndsWithTheSource) {
  Fill(logs_["a"], 2000, "event ");
  logs_["a"].End();
  Start();
  for (const int64_t after : {0, 1, 1500, 1999, 2000, 2500}) {
    Watch watch(*stub_, "a", after);
    v1::JobEvent event;
    int64_t number = after;
    while (watch.Read(&event)) {
      ASSERT_EQ(event.number(), ++number);
      ASSERT_EQ(event.message(), "event " + std::to_string(number - 1));
    }
    EXPECT_TRUE(watch.Finish().ok());
    EXPECT_EQ(number, std::max<int64_t>(after, 2000));
  }
}

TEST_F(EventStreamTest, EndsWithTheErrorOfTheOpener) {
  Start();
  Watch watch(*stub_, "b", 0);
  v1::JobEvent event;
  EXPECT_FALSE(watch.Read(&event));
  const grpc::Status status = watch.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no job b");
}

TEST_F(EventStreamTest, RefusesNegativeNumbersAndWaitsAfterFutureOnes) {
  Fill(logs_["a"], 3, "event ");
  logs_["a"].End();
  Start();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t after : {int64_t{-1}, std::numeric_limits<int64_t>::min(), kMax - 1, kMax}) {
    Watch watch(*stub_, "a", after);
    v1::JobEvent event;
    EXPECT_FALSE(watch.Read(&event));
    EXPECT_EQ(watch.Finish().error_code(),
              after < 0 ? grpc::StatusCode::INVALID_ARGUMENT : grpc::StatusCode::OK);
  }
}

TEST_F(EventStreamTest, SendsNewEventsWhenNotified) {
  logs_["a"];
  Start();
  Watch watch(*stub_, "a", 0);
  watch.WaitUntilWatching();
  for (int i = 1; i <= 50; ++i) {
    logs_["a"].Add("x");
    service_->Notify();
    v1::JobEvent event;
    ASSERT_TRUE(watch.Read(&event));
    ASSERT_EQ(event.number(), i);
  }
  logs_["a"].End();
  service_->Notify();
  v1::JobEvent event;
  EXPECT_FALSE(watch.Read(&event));
  EXPECT_TRUE(watch.Finish().ok());
}

TEST_F(EventStreamTest, SendsNewEventsAtTheNextPollWithoutNotification) {
  logs_["a"];
  Start({.poll_interval = std::chrono::milliseconds(10)});
  Watch watch(*stub_, "a", 0);
  watch.WaitUntilWatching();
  logs_["a"].Add("x");
  v1::JobEvent event;
  EXPECT_TRUE(watch.Read(&event));
}

TEST_F(EventStreamTest, ReconnectingWatchersMissAndRepeatNothing) {
  constexpr int kEvents = 3000, kWatchers = 12;
  Start({.poll_interval = std::chrono::milliseconds(5)});
  Log& log = logs_["a"];
  std::thread writer([&] {
    std::mt19937 random(7);
    for (int i = 0; i < kEvents; ++i) {
      log.Add(std::string(random() % 400, 'x'));
      if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      if (random() % 2 == 0) service_->Notify();
    }
    log.End();
    service_->Notify();
  });
  std::vector<std::thread> watchers;
  std::atomic<int> num_complete{0}, num_cuts{0};
  for (int w = 0; w < kWatchers; ++w) {
    watchers.emplace_back([&, w] {
      std::mt19937 random(100 + w);
      int64_t number = 0;
      for (bool ended = false; !ended;) {
        Watch watch(*stub_, "a", number);
        int64_t patience = static_cast<int64_t>(random() % 700);
        v1::JobEvent event;
        while (patience-- > 0 && (ended = !watch.Read(&event), !ended)) {
          if (event.number() != number + 1) return;
          ++number;
        }
        if (ended && !watch.Finish().ok()) return;
        num_cuts += ended ? 0 : 1;
      }
      num_complete += number == kEvents ? 1 : 0;
    });
  }
  writer.join();
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_EQ(num_complete, kWatchers);
  EXPECT_GT(num_cuts, kWatchers);
}

TEST_F(EventStreamTest, WatchersThatNeverReadCostNoReadsAndDelayNoOthers) {
  constexpr int kStuck = 50;
  Fill(logs_["big"], 2000, std::string(2000, 'x'));  // 4 MB, much larger than any window
  logs_["live"];
  Start();
  std::vector<std::unique_ptr<v1::PipelineService::Stub>> connections;
  std::vector<std::unique_ptr<Watch>> stuck;
  for (int i = 0; i < kStuck; ++i) {
    if (i % 10 == 0) connections.push_back(Connect());
    stuck.push_back(std::make_unique<Watch>(*connections.back(), "big", 0));
  }
  Watch live(*stub_, "live", 0);
  live.WaitUntilWatching();
  for (int i = 0; i < 200; ++i) {
    logs_["live"].Add("x");
    service_->Notify();
    v1::JobEvent event;
    ASSERT_TRUE(live.Read(&event));
  }
  // Each stream has read at most a few windows, not the whole log.
  EXPECT_LT(logs_["big"].num_reads, kStuck * 100);
  const int64_t reads = logs_["big"].num_reads;
  for (int i = 0; i < 20; ++i) {
    logs_["live"].Add("x");
    service_->Notify();
    v1::JobEvent event;
    ASSERT_TRUE(live.Read(&event));
  }
  EXPECT_LE(logs_["big"].num_reads - reads, kStuck) << "stuck streams are left alone";
}

TEST_F(EventStreamTest, LimitsStreamsPerPrincipal) {
  logs_["a"];
  Start({.poll_interval = std::chrono::seconds(30), .max_per_principal = 2});
  auto first = std::make_unique<Watch>(*stub_, "a", 0);
  first->WaitUntilWatching();
  Watch second(*stub_, "a", 0);
  second.WaitUntilWatching();
  {
    Watch third(*stub_, "a", 0);
    v1::JobEvent event;
    EXPECT_FALSE(third.Read(&event));
    const grpc::Status status = third.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr("the limit is 2"));
    EXPECT_THAT(status.error_message(), HasSubstr("--quota-watches"));
  }
  first.reset();
  // The server detects it a moment later.
  logs_["a"].Add("x");
  bool admitted = false;
  for (int tries = 0; tries < 2000 && !admitted; ++tries) {
    Watch again(*stub_, "a", 0);
    v1::JobEvent event;
    admitted = again.Read(&event);
  }
  EXPECT_TRUE(admitted);
}

TEST_F(EventStreamTest, ShutdownEndsWatches) {
  logs_["a"];
  Start();
  std::vector<std::unique_ptr<Watch>> watches;
  const auto connection = Connect();
  for (int i = 0; i < 20; ++i) {
    watches.push_back(std::make_unique<Watch>(*connection, "a", 0));
    watches.back()->WaitUntilWatching();
  }
  Shutdown();
  for (const auto& watch : watches) {
    v1::JobEvent event;
    EXPECT_FALSE(watch->Read(&event));
    EXPECT_FALSE(watch->Finish().ok());
  }
}

}  // namespace event_stream_test
}  // namespace braid
