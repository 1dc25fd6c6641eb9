#include "cli/prompt_batch.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/interrupt.h"

namespace braid {
namespace {

using Event = v1::GenerateEvent;
using OnEvent = std::function<bool(const Event&)>;

// Of one prompt.
struct Continuation {
  std::vector<Event> events;
  absl::Status status;
  bool complete = false;
};

// The rest would fail as well.
bool EndsBatch(const absl::Status& status) {
  return !status.ok() && !absl::IsInvalidArgument(status);
}

// Prompts are taken in their order by `parallel` threads, and their events given to `on_event` in
// that order, as they come for the first that is not complete.
class Workers {
 public:
  Workers(GenerationClient& client, const PromptBatch& batch)
      : client_(client), batch_(batch), results_(batch.prompts.size()) {
    const size_t count = std::min(static_cast<size_t>(batch.parallel), batch.prompts.size());
    for (size_t i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~Workers() { stopped_ = true; }  // and the threads are joined

  // Blocks until the prompt is done with; false from `on_event` ends all.
  absl::Status Follow(size_t index, const OnEvent& on_event) {
    for (size_t seen = 0;;) {
      std::vector<Event> events;
      bool complete = false;
      {
        std::unique_lock lock(mutex_);
        Continuation& result = results_[index];
        changed_.wait(lock, [&] { return result.complete || !result.events.empty(); });
        events.swap(result.events);
        complete = result.complete;
      }
      for (const Event& event : events) {
        if (!on_event(event)) stopped_ = true;
      }
      seen += events.size();
      if (stopped_) return absl::OkStatus();
      if (complete) return results_[index].status;
    }
  }
  bool stopped() const { return stopped_; }

 private:
  void Work() {
    for (size_t index; (index = next_++) < batch_.prompts.size();) {
      absl::Status status = absl::CancelledError("not begun");
      if (!stopped_ && !Interrupted()) status = Continue(index);
      const std::lock_guard lock(mutex_);
      results_[index].status = status;
      results_[index].complete = true;
      changed_.notify_all();
    }
  }

  absl::Status Continue(size_t index) {
    v1::GenerateRequest request = batch_.request;
    request.set_prompt(batch_.prompts[index]);
    return client_.Generate(request, [&](const Event& event) {
      const std::lock_guard lock(mutex_);
      results_[index].events.push_back(event);
      changed_.notify_all();
      return !stopped_ && !Interrupted();
    });
  }

  GenerationClient& client_;
  const PromptBatch& batch_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Continuation> results_;
  std::vector<std::jthread> threads_;  // last: they use the others
};

// What a batch does with each prompt.
struct Sink {
  std::function<void(size_t)> begin;
  std::function<bool(size_t, const Event&)> add;
  std::function<void(size_t, const absl::Status&)> fail;
};

absl::Status FollowAll(GenerationClient& client, const PromptBatch& batch, const Sink& sink) {
  Workers workers(client, batch);
  absl::Status first;
  for (size_t i = 0; i < batch.prompts.size() && !workers.stopped() && !Interrupted(); ++i) {
    sink.begin(i);
    const absl::Status status =
        workers.Follow(i, [&](const Event& event) { return sink.add(i, event); });
    if (status.ok() || Interrupted()) continue;
    sink.fail(i, status);
    first.Update(status);
    if (EndsBatch(status)) break;
  }
  return first;
}

std::string Position(size_t index, const PromptBatch& batch) {
  return absl::StrCat(index + 1, "/", batch.prompts.size());
}

nlohmann::json RoutingJson(const Event& event) {
  nlohmann::json layers = nlohmann::json::array();
  for (const v1::RoutingMixture& mixture : event.routing()) {
    layers.push_back(
        {{"layer", mixture.layer()},
         {"weights", std::vector<double>(mixture.weights().begin(), mixture.weights().end())}});
  }
  return {{"before_token", std::max(1, event.num_tokens())}, {"layers", layers}};
}

}  // namespace

absl::Status ContinueAsText(GenerationClient& client, const PromptBatch& batch,
                            GenerationPrinter printer, std::ostream& out, std::ostream& notes) {
  const auto begin = [&](size_t i) {
    out << (i > 0 ? "\n" : "") << "==> " << Position(i, batch) << " <==" << std::endl;
    printer.Print(batch.prompts[i]);
  };
  const auto add = [&](size_t, const Event& event) { return printer.Add(event); };
  const auto fail = [&](size_t i, const absl::Status& status) {
    printer.EndLine();
    notes << "braid: prompt " << Position(i, batch) << ": " << status.message() << std::endl;
  };
  return FollowAll(client, batch, {begin, add, fail});
}

absl::Status ContinueAsJson(GenerationClient& client, const PromptBatch& batch, std::ostream& out,
                            std::ostream& notes) {
  nlohmann::json line;
  std::string text;
  const auto begin = [&](size_t i) {
    line = {{"index", i}, {"prompt", batch.prompts[i]}};
    text.clear();
  };
  const auto add = [&](size_t, const Event& event) {
    text += event.text();
    if (event.routing_size() > 0) line["routing"].push_back(RoutingJson(event));
    if (!event.done()) return true;
    line["text"] = text;
    line["num_tokens"] = event.num_tokens();
    line["tokens_per_second"] = event.tokens_per_second();
    out << line.dump() << std::endl;
    return out.good();
  };
  const auto fail = [&](size_t i, const absl::Status& status) {
    line["error"] = std::string(status.message());
    out << line.dump() << std::endl;
    notes << "braid: prompt " << Position(i, batch) << ": " << status.message() << std::endl;
  };
  return FollowAll(client, batch, {begin, add, fail});
}

}  // namespace braid
