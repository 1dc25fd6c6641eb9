#include "formats/chat_template.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_word.h"

namespace braid {
namespace {

constexpr std::string_view kEosMarker = "{eos}";
constexpr std::string_view kBosMarker = "{bos}";
// Markers that are pieces of the vocabularies made for their template.
constexpr std::array<std::string_view, 5> kPieceMarkers = {
    "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};

constexpr std::array<ChatTemplate, 6> kChatTemplates = {{
    {.name = "plain", .system_suffix = "\n\n", .input_prefix = "\n\n", .end_of_turn = kEosMarker},
    {.name = "alpaca",
     .system_suffix = "\n\n",
     .user_prefix = "### Instruction:\n",
     .input_prefix = "\n\n### Input:\n",
     .user_suffix = "\n\n",
     .assistant_prefix = "### Response:\n",
     .end_of_turn = kEosMarker,
     .turn_separator = "\n\n",
     .default_system = "Below is an instruction that describes a task. Write a response that "
                       "appropriately completes the request.",
     .default_system_with_input =
         "Below is an instruction that describes a task, paired with an input that provides "
         "further context. Write a response that appropriately completes the request."},
    {.name = "chatml",
     .system_prefix = "<|im_start|>system\n",
     .system_suffix = "<|im_end|>\n",
     .user_prefix = "<|im_start|>user\n",
     .input_prefix = "\n\n",
     .user_suffix = "<|im_end|>\n",
     .assistant_prefix = "<|im_start|>assistant\n",
     .end_of_turn = "<|im_end|>",
     .turn_separator = "\n"},
    {.name = "llama2",
     .system_prefix = "<<SYS>>\n",
     .system_suffix = "\n<</SYS>>\n\n",
     .user_prefix = "[INST] ",
     .input_prefix = "\n\n",
     .user_suffix = " [/INST]",
     .assistant_prefix = " ",
     .answer_suffix = " ",
     .end_of_turn = kEosMarker,
     .turn_separator = kBosMarker,
     .system_in_user = true},
    {.name = "llama3",
     .system_prefix = "<|start_header_id|>system<|end_header_id|>\n\n",
     .system_suffix = "<|eot_id|>",
     .user_prefix = "<|start_header_id|>user<|end_header_id|>\n\n",
     .input_prefix = "\n\n",
     .user_suffix = "<|eot_id|>",
     .assistant_prefix = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .end_of_turn = "<|eot_id|>"},
    {.name = "zephyr",
     .system_prefix = "<|system|>\n",
     .system_suffix = "{eos}\n",
     .user_prefix = "<|user|>\n",
     .input_prefix = "\n\n",
     .user_suffix = "{eos}\n",
     .assistant_prefix = "<|assistant|>\n",
     .end_of_turn = kEosMarker,
     .turn_separator = "\n"},
}};

bool IsEndOfTurnPiece(std::string_view marker) {
  return marker == "<|im_end|>" || marker == "<|eot_id|>";
}

bool IsWhiteSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Builds the parts of a conversation.
class ChatRenderer {
 public:
  ChatRenderer(const ChatTemplate& chat, bool literal) : chat_(chat), literal_(literal) {}

  void Add(const ChatTurn& turn, std::string_view system) {
    if (turn.role == ChatRole::kAssistant) return Answer(turn.text);
    if (turn.role == ChatRole::kSystem) return;  // rendered with the first turn of a user
    if (!parts_.empty()) Template(chat_.turn_separator);
    if (!chat_.system_in_user) System(system);
    Join(turn.text);
    Template(chat_.user_prefix);
    if (chat_.system_in_user) System(system);
    Append(ChatPart::kText, turn.text);
    if (!turn.input.empty()) {
      Template(chat_.input_prefix);
      Append(ChatPart::kText, turn.input);
    }
    Template(chat_.user_suffix);
  }

  void BeginAnswer() { Template(chat_.assistant_prefix); }

  std::vector<ChatPart> Finish() && { return std::move(parts_); }

 private:
  void System(std::string_view text) {
    if (text.empty()) return;
    Template(chat_.system_prefix);
    Append(ChatPart::kText, text);
    Template(chat_.system_suffix);
  }

  void Answer(std::string_view text) {
    BeginAnswer();
    Join(text);
    Append(ChatPart::kAnswer, std::string(text).append(chat_.answer_suffix));
    Append(ChatPart::kEndOfTurn, chat_.end_of_turn);
  }

  // Separates turns of the template without prefixes.
  void Join(std::string_view next) {
    if (literal_ || chat_.name != "plain" || parts_.empty() || next.empty()) return;
    const ChatPart& last = parts_.back();
    const bool separate = last.kind != ChatPart::kText || IsWhiteSpace(last.text.back()) ||
                          IsWhiteSpace(next.front());
    if (!separate) Append(ChatPart::kText, "\n");
  }

  // Appends a string of the table, cut at its markers.
  void Template(std::string_view text) {
    while (!text.empty()) {
      size_t begin = text.size();
      std::string_view marker;
      const auto search = [&](std::string_view one) {
        const size_t found = text.find(one);
        if (found < begin) begin = found, marker = one;
      };
      search(kEosMarker);
      search(kBosMarker);
      for (const std::string_view piece : kPieceMarkers) search(piece);
      Append(ChatPart::kText, text.substr(0, begin));
      if (!marker.empty()) Append(ChatPart::kMarker, marker);
      text.remove_prefix(begin + marker.size());
    }
  }

  void Append(ChatPart::Kind kind, std::string_view text) {
    if (text.empty() && kind == ChatPart::kText) return;
    if (kind == ChatPart::kText && !parts_.empty() && parts_.back().kind == kind) {
      parts_.back().text += text;
    } else {
      parts_.push_back({kind, std::string(text)});
    }
  }

  const ChatTemplate& chat_;
  const bool literal_;
  std::vector<ChatPart> parts_;
};

// Returns the system text of a conversation: its own, or the default of the template.
std::string_view SystemText(const ChatTemplate& chat, std::span<const ChatTurn> turns) {
  bool has_input = false;
  for (const ChatTurn& turn : turns) {
    if (turn.role == ChatRole::kSystem) return turn.text;
    has_input |= !turn.input.empty();
  }
  return has_input ? chat.default_system_with_input : chat.default_system;
}

}  // namespace

std::span<const ChatTemplate> ChatTemplates() { return kChatTemplates; }

std::vector<std::string> ChatTemplateNames() {
  std::vector<std::string> names;
  for (const ChatTemplate& chat : kChatTemplates) names.emplace_back(chat.name);
  return names;
}

absl::StatusOr<ChatTemplate> FindChatTemplate(std::string_view name) {
  for (const ChatTemplate& chat : kChatTemplates) {
    if (chat.name == name) return chat;
  }
  const std::vector<std::string> names = ChatTemplateNames();
  return absl::NotFoundError(absl::StrCat("template: got ", std::string(name), ", expected one of ",
                                          absl::StrJoin(names, ", "), DidYouMean(name, names)));
}

std::vector<ChatPart> RenderChat(const ChatTemplate& chat, std::span<const ChatTurn> turns,
                                 bool literal, bool for_generation) {
  ChatRenderer renderer(chat, literal);
  std::string_view system = SystemText(chat, turns);
  for (const ChatTurn& turn : turns) {
    renderer.Add(turn, system);
    if (turn.role == ChatRole::kUser) system = "";
  }
  if (for_generation) renderer.BeginAnswer();
  return std::move(renderer).Finish();
}

ChatMarkers::ChatMarkers(const Tokenizer& tokenizer, std::optional<int32_t> start_id)
    : eos_id_(tokenizer.eos_id()), start_id_(start_id) {
  for (const std::string_view marker : kPieceMarkers) {
    const std::optional<int32_t> id = tokenizer.FindPiece(marker);
    if (id.has_value()) ids_.emplace(marker, *id);
  }
  for (const auto& [marker, id] : ids_) control_texts_.push_back(marker);
  for (const int32_t id : {tokenizer.eos_id(), tokenizer.bos_id()}) {
    if (id >= 0) control_texts_.push_back(tokenizer.Piece(id));
  }
}

std::optional<int32_t> ChatMarkers::Find(const ChatPart& part) const {
  if (part.text == kEosMarker) return eos_id_;
  if (part.text == kBosMarker) return start_id_;
  const auto found = ids_.find(part.text);
  if (found != ids_.end()) return found->second;
  return IsEndOfTurnPiece(part.text) ? std::optional(eos_id_) : std::nullopt;
}

int32_t ChatMarkers::EndOfTurn(const ChatTemplate& chat) const {
  return Find({ChatPart::kEndOfTurn, std::string(chat.end_of_turn)}).value_or(eos_id_);
}

bool ChatMarkers::OccurIn(std::string_view text) const {
  return std::ranges::any_of(
      control_texts_, [&](const std::string& control) { return text.find(control) != text.npos; });
}

}  // namespace braid
