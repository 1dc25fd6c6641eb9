// Chat templates: the text and control tokens around the turns of a conversation. One table
// describes all of them; the functions here render a conversation without a tokenizer.
//
// Text of users is never searched for control tokens: only the strings of the table may become
// one.
#ifndef BRAID_FORMATS_CHAT_TEMPLATE_H_
#define BRAID_FORMATS_CHAT_TEMPLATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/tokenizer.h"

namespace braid {

enum class ChatRole { kSystem, kUser, kAssistant };

struct ChatTurn {
  ChatRole role = ChatRole::kUser;
  std::string text;
  // Material that a user's instruction refers to; empty for none.
  std::string input = {};
};

// One row of the table. A string may contain markers such as "<|im_end|>" and "{eos}".
struct ChatTemplate {
  std::string_view name = "";
  std::string_view system_prefix = "", system_suffix = "";
  std::string_view user_prefix = "", input_prefix = "", user_suffix = "";
  std::string_view assistant_prefix = "";
  // Ends an answer and is a target of the loss: optional text, then one token.
  std::string_view answer_suffix = "", end_of_turn = "";
  // Separates an answer from the turn after it.
  std::string_view turn_separator = "";
  // True if the system's text is written after the prefix of the first user turn.
  bool system_in_user = false;
  // The system text of conversations without one, and of those whose user turn has an input.
  std::string_view default_system = "", default_system_with_input = "";
};

// Returns all templates: plain, alpaca, chatml, llama2, llama3, zephyr.
std::span<const ChatTemplate> ChatTemplates();
// Returns the names of all templates.
std::vector<std::string> ChatTemplateNames();
// Returns a template. NOT_FOUND lists the names and the nearest one.
absl::StatusOr<ChatTemplate> FindChatTemplate(std::string_view name);

// A part of a rendered conversation.
struct ChatPart {
  enum Kind {
    kText,       // text around answers
    kMarker,     // a marker of the table, alone
    kAnswer,     // the text of an answer
    kEndOfTurn,  // the marker that ends the answer before it
  };
  Kind kind = kText;
  std::string text;
};

// Returns the parts of a conversation in order; text parts are merged. Ends after the end of turn
// of the last answer; with `for_generation`, at the place where the next answer begins. `plain`
// joins turns that have no white space between them by a newline unless `literal`.
std::vector<ChatPart> RenderChat(const ChatTemplate& chat, std::span<const ChatTurn> turns,
                                 bool literal, bool for_generation = false);

// The control tokens that the markers of templates are in one vocabulary.
class ChatMarkers {
 public:
  // `start_id`: the token that precedes a text, if the model has one. The tokenizer is not kept.
  ChatMarkers(const Tokenizer& tokenizer, std::optional<int32_t> start_id);

  // Returns the token of a marker: its piece of that name; EOS for "{eos}" and for ends of turn
  // without a piece; the start token for "{bos}". Nullopt if the marker is encoded as text.
  std::optional<int32_t> Find(const ChatPart& part) const;
  // Returns the token that ends an answer.
  int32_t EndOfTurn(const ChatTemplate& chat) const;
  // Returns whether a text contains the spelling of a control token.
  bool OccurIn(std::string_view text) const;

  int32_t eos_id() const { return eos_id_; }
  std::optional<int32_t> start_id() const { return start_id_; }

 private:
  int32_t eos_id_;
  std::optional<int32_t> start_id_;
  std::map<std::string, int32_t, std::less<>> ids_;  // markers that are pieces
  std::vector<std::string> control_texts_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_CHAT_TEMPLATE_H_
