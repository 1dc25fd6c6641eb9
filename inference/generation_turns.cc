#include "inference/generation_turns.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "runs/model_path.h"

namespace braid {

void GenerationTurns::Take(const v1::ServingCommand& command) {
  if (command.cancel()) {
    const auto given_up = [&](const Text& text) { return text.id == command.id(); };
    const auto gone = std::find_if(begun_.begin(), begun_.end(), given_up);
    const auto turn = static_cast<size_t>(gone - begun_.begin());
    if (gone != begun_.end()) {
      // Texts that have had their turn in this round are at the back of the queue.
      if (turn < left_in_round_) --left_in_round_;
      begun_.erase(gone);
    }
    std::erase_if(new_, given_up);
    return;
  }
  auto generation = Start(command.generate());
  if (!generation.ok()) return Fail(command.id(), generation.status());
  new_.push_back({command.id(), *std::move(generation)});
}

absl::StatusOr<std::unique_ptr<TextGeneration>> GenerationTurns::Start(
    const v1::GenerateRequest& request) {
  if (request.strict()) RETURN_IF_ERROR(CheckNewest(model_.source));
  return TextGeneration::Create(request, *model_.model, *model_.tokenizer);
}

void GenerationTurns::Turn() {
  BRAID_CHECK(!idle()) << "no text to continue";
  if (together_ && (left_in_round_ > 0 || new_.empty())) return TurnOfAll();
  Text text = NextText();
  const absl::StatusOr<v1::GenerateEvent> event = text.generation->Advance();
  Report(std::move(text), event);
}

void GenerationTurns::TurnOfAll() {
  left_in_round_ = 0;
  std::vector<TextGeneration*> texts;
  for (const Text& text : begun_) texts.push_back(text.generation.get());
  const auto events = TextGeneration::AdvanceTogether(texts);
  std::deque<Text> round = std::exchange(begun_, {});
  for (size_t i = 0; i < events.size(); ++i) Report(std::move(round[i]), events[i]);
}

// Emits the result of a turn; a text that is not complete gets another turn.
void GenerationTurns::Report(Text text, const absl::StatusOr<v1::GenerateEvent>& event) {
  if (!event.ok()) return Fail(text.id, event.status());
  if (event->done() || !event->text().empty() || event->routing_size() > 0) {
    v1::ServingReport report;
    report.set_id(text.id);
    *report.mutable_event() = *event;
    if (!std::exchange(text.reported, true)) {
      *report.mutable_event()->mutable_source() = model_.source;
    }
    emit_(report);
  }
  if (!event->done()) begun_.push_back(std::move(text));
}

// left_in_round_ counts the texts at the front of begun_ that have not had a turn in this round;
// texts that had one are at the back. When it reaches 0 a round is over: then one new prompt is
// read, if there is one, before the next round starts. This bounds the time between two tokens of a
// text.
GenerationTurns::Text GenerationTurns::NextText() {
  const bool round_is_over = left_in_round_ == 0;
  if (round_is_over) left_in_round_ = begun_.size();
  std::deque<Text>& from = round_is_over && !new_.empty() ? new_ : begun_;
  if (&from == &begun_) --left_in_round_;
  Text text = std::move(from.front());
  from.pop_front();
  return text;
}

void GenerationTurns::Fail(uint64_t id, const absl::Status& status) {
  v1::ServingReport report;
  report.set_id(id);
  report.mutable_error()->set_code(static_cast<int32_t>(status.code()));
  report.mutable_error()->set_message(std::string(status.message()));
  emit_(report);
}

}  // namespace braid
