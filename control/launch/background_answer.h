// The newest answer to a question that may take long to answer, such as what a scheduler has
// queued: asked in the background, so that nobody waits for it who may not.
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

// Thread-safe. A question that is being asked when this is destroyed is asked to its end.
template <class Answer>
class BackgroundAnswer {
 public:
  using Question = std::function<absl::StatusOr<Answer>()>;
  using Duration = std::chrono::milliseconds;

  // An answer older than `age` is asked for anew.
  explicit BackgroundAnswer(Question ask, Duration age = std::chrono::seconds(1),
                            Duration patience = std::chrono::milliseconds(500))
      : age_(age), patience_(patience), state_(std::make_shared<State>(std::move(ask))) {}

  // The last answer, be it old, or the error of the last question. Where there is none yet, waits
  // until `patience` after the question was asked: Unavailable then.
  absl::StatusOr<Answer> Newest() {
    std::unique_lock lock(state_->mutex);
    const Clock::time_point now = Clock::now();
    if (!state_->asking && (!state_->answer || now - state_->asked > age_)) Ask(now);
    state_->answered.wait_until(lock, state_->asked + patience_,
                                [&] { return state_->answer.has_value(); });
    if (state_->answer) return *state_->answer;
    return absl::UnavailableError("the scheduler has not answered yet");
  }

  // What is known, and what is on its way, holds no more.
  void Forget() {
    const std::lock_guard lock(state_->mutex);
    ++state_->generation;
    state_->answer.reset();
    state_->asking = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    explicit State(Question question) : ask(std::move(question)) {}
    const Question ask;
    std::mutex mutex;  // guards what follows
    std::condition_variable answered;
    std::optional<absl::StatusOr<Answer>> answer;
    Clock::time_point asked{};
    bool asking = false;
    int64_t generation = 0;
  };

  // With the mutex held.
  void Ask(Clock::time_point now) {
    state_->asking = true;
    state_->asked = now;
    std::thread([state = state_, generation = state_->generation] {
      absl::StatusOr<Answer> answer = state->ask();
      const std::lock_guard lock(state->mutex);
      if (state->generation != generation) return;
      state->answer = std::move(answer);
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
