// Services to put behind a gate: they respond with what they see of a call, or hold it.
#ifndef BRAID_TESTS_SERVER_ACCESS_OBSERVED_SERVICES_H_
#define BRAID_TESTS_SERVER_ACCESS_OBSERVED_SERVICES_H_

#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "braid/v1/embedding.grpc.pb.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "rpc/grpc_caller.h"
#include "server/access/grpc_gate.h"

namespace braid {
namespace gate_test {

// Responds with what it sees of the call.
class SeeingPipeline final : public v1::PipelineService::Service {
 public:
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* job) override {
    ++calls;
    job->set_id(request->id());
    job->set_principal(PrincipalOf(*context));
    job->set_error(MayManage(*context, "ann") ? "may" : "may not");
    return context->client_metadata().contains("authorization")
               ? grpc::Status(grpc::StatusCode::INTERNAL, "a token got through")
               : grpc::Status::OK;
  }
  // Events until the client or the gate ends it.
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    if (request->id() == "silent") {
      writer->SendInitialMetadata();
      while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return grpc::Status::CANCELLED;
    }
    v1::JobEvent event;
    for (int64_t number = request->after_event() + 1; !context->IsCancelled(); ++number) {
      event.set_number(number);
      event.set_message(std::string(1000, 'x'));
      if (!writer->Write(event)) break;
      {
        const std::lock_guard lock(mutex);
        written = number;
      }
      changed.notify_all();
      if (request->id() == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return grpc::Status::CANCELLED;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::Job* job) override {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [this] { return released; });
    job->set_id("finished");
    return grpc::Status::OK;
  }

  // Blocks until no event was written for half a second, or event `most` was; returns the number of
  // the last event.
  int64_t WaitUntilBlocked(int64_t most) {
    std::unique_lock lock(mutex);
    int64_t seen = written;
    const auto writes = [&] { return written != seen; };
    while (seen < most && changed.wait_for(lock, std::chrono::milliseconds(500), writes)) {
      seen = written;
    }
    return seen;
  }

  std::atomic<int> calls = 0;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t written = 0;    // guarded by mutex: the number of the last event of a watch
  int waiting = 0;        // guarded by mutex
  bool released = false;  // guarded by mutex
};

// Responds to each batch with the lengths of its texts.
class EchoEmbedding final : public v1::EmbeddingService::Service {
 public:
  grpc::Status Embed(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::EmbedResponse, v1::EmbedRequest>* stream) override {
    context->AddInitialMetadata("braid-embedder", "echo");
    stream->SendInitialMetadata();
    v1::EmbedRequest request;
    while (stream->Read(&request)) {
      if (request.batch() < 0) return grpc::Status(grpc::StatusCode::ABORTED, "enough");
      v1::EmbedResponse response;
      response.set_batch(request.batch());
      for (const std::string& text : request.texts()) {
        response.add_values(static_cast<float>(text.size()));
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
};

// Keeps what a gate reports about its calls. Thread-safe.
class KeptRecords final : public CallObserver {
 public:
  void OnStart(const std::string&) override {
    std::function<void()> at_start;
    {
      const std::lock_guard lock(mutex_);
      ++num_started_;
      at_start = std::exchange(at_start_, nullptr);
    }
    if (at_start) at_start();
  }
  // Calls `at_start` once, when the next call was admitted and the gate does not yet count it among
  // its calls.
  void AtNextStart(std::function<void()> at_start) {
    const std::lock_guard lock(mutex_);
    at_start_ = std::move(at_start);
  }
  void OnEnd(const CallRecord& record, bool started) override {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
    if (started) ++num_ended_;
    changed_.notify_all();
  }
  int num_started() {
    const std::lock_guard lock(mutex_);
    return num_started_;
  }
  // Blocks until every call that has started has ended, for at most 20 s; returns whether they
  // have.
  bool WaitUntilAllHaveEnded() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return num_ended_ == num_started_; });
  }
  CallRecord WaitFor(const std::string& request_id) {
    std::unique_lock lock(mutex_);
    CallRecord found;
    const bool came = changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      for (const CallRecord& record : records_) {
        if (record.request_id == request_id) found = record;
      }
      return !found.request_id.empty();
    });
    EXPECT_TRUE(came) << request_id;
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CallRecord> records_;
  std::function<void()> at_start_;
  int num_started_ = 0, num_ended_ = 0;
};

}  // namespace gate_test
}  // namespace braid

#endif  // BRAID_TESTS_SERVER_ACCESS_OBSERVED_SERVICES_H_
