// Caches the result of a slow query, such as the queue of a scheduler, and refreshes it in the
// background, so callers never block for long.
#ifndef BRAID_CONTROL_LAUNCH_BACKGROUND_ANSWER_H_
#define BRAID_CONTROL_LAUNCH_BACKGROUND_ANSWER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Thread-safe. A query that is in progress when the object is destroyed runs to its end.
template <class Answer>
class BackgroundAnswer {
 public:
  using Question = std::function<absl::StatusOr<Answer>()>;
  using Duration = std::chrono::milliseconds;

  // A result older than `age` is refreshed by the next call of Newest.
  explicit BackgroundAnswer(Question ask, Duration age = std::chrono::seconds(1),
                            Duration patience = std::chrono::milliseconds(500))
      : age_(age), patience_(patience), state_(std::make_shared<State>(std::move(ask))) {}

  // Returns the last result, even if it is old, or the error of the last query. Where there is none
  // yet, blocks until `patience` has passed since the query was started, and then returns
  // Unavailable.
  absl::StatusOr<Answer> Newest() {
    std::unique_lock lock(state_->mutex);
    const Clock::time_point now = Clock::now();
    if (!state_->asking && (!state_->answer || now - state_->asked > age_)) Ask(now);
    state_->answered.wait_until(lock, state_->asked + patience_,
                                [&] { return state_->answer.has_value(); });
    if (state_->answer) return *state_->answer;
    return absl::UnavailableError("the scheduler has not answered yet");
  }

  // Blocks until a query that was started after this call has been answered. Unavailable when
  // `limit` passes before.
  absl::StatusOr<Answer> AskNow(Duration limit = std::chrono::seconds(60)) {
    std::unique_lock lock(state_->mutex);
    const Clock::time_point called = Clock::now();
    DiscardQuery();
    const auto is_new = [&] { return state_->answer && state_->answer_asked >= called; };
    while (!is_new()) {
      if (!state_->asking) Ask(Clock::now());
      if (state_->answered.wait_until(lock, called + limit) == std::cv_status::timeout) break;
    }
    if (is_new()) return *state_->answer;
    return absl::UnavailableError("the scheduler does not answer");
  }

  // Discards the result, and that of a query in progress.
  void Forget() {
    const std::lock_guard lock(state_->mutex);
    DiscardQuery();
    state_->answer.reset();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    explicit State(Question question) : ask(std::move(question)) {}
    const Question ask;
    std::mutex mutex;  // guards the members below
    std::condition_variable answered;
    std::optional<absl::StatusOr<Answer>> answer;
    Clock::time_point answer_asked{};  // when the query of `answer` was started
    Clock::time_point asked{};
    bool asking = false;
    int64_t generation = 0;
  };

  // Requires the mutex.
  void DiscardQuery() {
    ++state_->generation;
    state_->asking = false;
    state_->answered.notify_all();
  }

  // Starts a query. Requires the mutex.
  void Ask(Clock::time_point now) {
    state_->asking = true;
    state_->asked = now;
    std::thread([state = state_, generation = state_->generation, now] {
      absl::StatusOr<Answer> answer = state->ask();
      const std::lock_guard lock(state->mutex);
      if (state->generation != generation) return;
      state->answer = std::move(answer);
      state->answer_asked = now;
      state->asking = false;
      state->answered.notify_all();
    }).detach();
  }

  const Duration age_;
  const Duration patience_;
  const std::shared_ptr<State> state_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_BACKGROUND_ANSWER_H_
