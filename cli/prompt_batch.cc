#include "cli/prompt_batch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/generation_json.h"
#include "client/terminal/source_warning.h"
#include "client/terminal/terminal_text.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

using Event = v1::GenerateEvent;
using OnEvent = std::function<bool(const Event&)>;

// Events and outcome of one prompt.
struct Continuation {
  std::vector<Event> events;
  absl::Status status;
  bool complete = false;
};

// Returns whether an error would repeat for the remaining prompts.
bool EndsBatch(const absl::Status& status) {
  return !status.ok() && !absl::IsInvalidArgument(status);
}

// A pool of threads that generates text for the prompts of a batch.
//
// Algorithm: `parallel` threads take prompts in order and append their events to results_. The
// caller follows the prompts in the same order and receives the events of the current prompt as
// they arrive; events of later prompts wait in results_. To bound that memory, a thread waits
// before it starts a prompt that is kWindow * parallel or more ahead of the followed one. A request
// that the server refuses because it is full is retried with exponential backoff.
//
// Invariant: results_, followed_ and reported_full_ are accessed with mutex_ held, and changed_ is
// notified after each change. Destruction stops all requests and joins the threads, which are the
// last member for this reason.
class Workers {
 public:
  Workers(GenerationClient& client, const PromptBatch& batch, std::ostream& notes)
      : client_(client), batch_(batch), notes_(notes), results_(batch.prompts.size()) {
    const size_t count = std::min(static_cast<size_t>(batch.parallel), batch.prompts.size());
    for (size_t i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~Workers() { Stop(); }

  // Passes the events of a prompt to `on_event` and blocks until the prompt is complete; `on_event`
  // ends the batch by returning false. Must be called once per prompt, in order.
  absl::Status Follow(size_t index, const OnEvent& on_event) {
    while (true) {
      std::vector<Event> events;
      bool complete = false;
      {
        std::unique_lock lock(mutex_);
        followed_ = index;
        changed_.notify_all();
        Continuation& result = results_[index];
        changed_.wait(lock, [&] { return result.complete || !result.events.empty(); });
        events.swap(result.events);
        complete = result.complete;
      }
      for (const Event& event : events) {
        if (!on_event(event)) Stop();
      }
      if (stopped_) return absl::OkStatus();
      if (complete) return results_[index].status;
    }
  }
  bool stopped() const { return stopped_; }

 private:
  static constexpr size_t kWindow = 4;

  void Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  bool GivenUp() const { return stopped_ || Interrupted(); }

  void Work() {
    for (size_t index; (index = next_++) < batch_.prompts.size();) {
      WaitForTurn(index);
      const absl::Status status =
          GivenUp() ? absl::CancelledError("not started") : ContinueWithRetries(index);
      const std::lock_guard lock(mutex_);
      results_[index].status = status;
      results_[index].complete = true;
      changed_.notify_all();
    }
  }

  void WaitForTurn(size_t index) {
    std::unique_lock lock(mutex_);
    const size_t window = kWindow * static_cast<size_t>(batch_.parallel);
    while (index >= followed_ + window && !GivenUp()) changed_.wait_for(lock, kLook);
  }

  absl::Status ContinueWithRetries(size_t index) {
    absl::Status status = Continue(index);
    std::chrono::milliseconds pause = batch_.first_pause;
    for (int again = 0; again < kAttempts && absl::IsResourceExhausted(status); ++again) {
      ReportFull(status);
      std::unique_lock lock(mutex_);
      const auto until = std::chrono::steady_clock::now() + pause;
      while (!GivenUp() && std::chrono::steady_clock::now() < until) {
        changed_.wait_for(lock, std::min(kLook, pause));
      }
      lock.unlock();
      if (GivenUp()) break;
      pause = std::min(2 * pause, kLongestPause);
      status = Continue(index);
    }
    return status;
  }

  // Reports a full server once: many prompts may wait at the same time.
  void ReportFull(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(reported_full_, true)) return;
    notes_ << "braid: the server is full; retrying: " << ErrorText(status) << std::endl;
  }

  absl::Status Continue(size_t index) {
    v1::GenerateRequest request = batch_.request;
    request.set_prompt(batch_.prompts[index]);
    const auto on_event = [&](const Event& event) {
      const std::lock_guard lock(mutex_);
      results_[index].events.push_back(event);
      changed_.notify_all();
      return !GivenUp();
    };
    return client_.Generate(request, on_event, [this] { return stopped_.load(); });
  }

  static constexpr std::chrono::milliseconds kLook{50};
  static constexpr std::chrono::milliseconds kLongestPause{5000};
  static constexpr int kAttempts = 30;  // about two minutes

  GenerationClient& client_;
  const PromptBatch& batch_;
  std::ostream& notes_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Continuation> results_;
  size_t followed_ = 0;
  bool reported_full_ = false;
  std::vector<std::jthread> threads_;  // last: threads use the other members
};

// Output of a batch, called in the order of the prompts.
struct Sink {
  std::function<void(size_t)> begin;
  std::function<bool(size_t, const Event&)> add;
  // `report`: also print the error on the notes; otherwise the caller of the batch reports it.
  std::function<void(size_t, const absl::Status&, bool report)> fail;
};

absl::Status FollowAll(GenerationClient& client, const PromptBatch& batch, std::ostream& notes,
                       const Sink& sink) {
  Workers workers(client, batch, notes);
  absl::Status first;
  int64_t failed = 0;
  for (size_t i = 0; i < batch.prompts.size() && !workers.stopped() && !Interrupted(); ++i) {
    sink.begin(i);
    const absl::Status status =
        workers.Follow(i, [&](const Event& event) { return sink.add(i, event); });
    if (status.ok() || Interrupted()) continue;
    if (EndsBatch(status)) {
      sink.fail(i, status, /*report=*/false);
      return status;
    }
    sink.fail(i, status, /*report=*/true);
    first.Update(status);
    ++failed;
  }
  if (first.ok()) return first;
  return absl::Status(first.code(), absl::StrCat(failed, " of ", batch.prompts.size(),
                                                 " prompts could not be continued"));
}

std::string Position(size_t index, const PromptBatch& batch) {
  return absl::StrCat(index + 1, "/", batch.prompts.size());
}

void ReportFailure(size_t index, const PromptBatch& batch, const absl::Status& status,
                   std::ostream& notes) {
  notes << "braid: prompt " << Position(index, batch) << ": " << ErrorText(status) << std::endl;
}

}  // namespace

absl::Status ContinueAsText(GenerationClient& client, const PromptBatch& batch,
                            GenerationPrinter printer, std::ostream& out, std::ostream& notes) {
  const auto begin = [&](size_t i) {
    out << (i > 0 ? "\n" : "") << "==> " << Position(i, batch) << " <==" << std::endl;
    if (!batch.request.chat()) printer.Print(batch.prompts[i]);
  };
  const auto add = [&](size_t, const Event& event) { return printer.Add(event); };
  const auto fail = [&](size_t i, const absl::Status& status, bool report) {
    printer.EndLine();
    if (report) ReportFailure(i, batch, status, notes);
  };
  return FollowAll(client, batch, notes, {begin, add, fail});
}

absl::Status ContinueAsJson(GenerationClient& client, const PromptBatch& batch, std::ostream& out,
                            std::ostream& notes) {
  nlohmann::json line;
  std::string text;
  SourceWarning warning(notes);
  const auto begin = [&](size_t i) {
    line = {{"index", i}, {"prompt", batch.prompts[i]}};
    text.clear();
  };
  const auto add = [&](size_t, const Event& event) {
    text += event.text();
    warning.Show(event.source());
    if (event.has_source()) line["source"] = SourceJson(event.source());
    for (auto& mixture : RoutingJson(event)) line["routing"].push_back(std::move(mixture));
    if (!event.done()) return true;
    line["text"] = text;
    line["num_tokens"] = event.num_tokens();
    line["tokens_per_second"] = event.tokens_per_second();
    out << line.dump() << std::endl;
    return out.good();
  };
  const auto fail = [&](size_t i, const absl::Status& status, bool report) {
    line["error"] = std::string(status.message());
    out << line.dump() << std::endl;
    if (report) ReportFailure(i, batch, status, notes);
  };
  return FollowAll(client, batch, notes, {begin, add, fail});
}

}  // namespace braid
