#include "inference/huggingface/chat_jinja.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "formats/word_boundaries.h"

namespace braid {
namespace {

constexpr std::string_view kContent = "message['content']";
constexpr std::string_view kSpaces = "' \\n\\t\\r\\v\\f'";

std::string Quoted(std::string_view text) {
  return absl::StrCat(
      "'", absl::StrReplaceAll(std::string(text), {{"\\", "\\\\"}, {"'", "\\'"}, {"\n", "\\n"}}),
      "'");
}

// Returns whether the tokenizer puts a space before a text, as SentencePiece models do.
bool AddsSpace(const Tokenizer& tokenizer) {
  const std::vector<int32_t> tokens = tokenizer.Encode("a");
  return !tokens.empty() && tokenizer.Piece(tokens[0]).starts_with(kSpaceSymbol);
}

// Writes expressions one after the other and knows whether the last one was a control token.
class JinjaWriter {
 public:
  JinjaWriter(const Tokenizer& tokenizer, const ChatMarkers& markers, bool writes_spaces)
      : tokenizer_(tokenizer),
        markers_(markers),
        adds_space_(writes_spaces && AddsSpace(tokenizer)) {}

  // Writes text of a template, whose markers may be control tokens.
  void Parts(const std::vector<ChatPart>& parts) {
    for (const ChatPart& part : parts) Part(part);
  }

  void Part(const ChatPart& part) {
    const bool marker = part.kind == ChatPart::kMarker || part.kind == ChatPart::kEndOfTurn;
    const std::optional<int32_t> id = marker ? markers_.Find(part) : std::nullopt;
    if (id.has_value()) return Control(*id);
    if (!marker || !part.text.starts_with('{')) Expression(Quoted(part.text));
  }

  void Control(int32_t id) {
    Append(absl::StrCat("{{ ", Quoted(tokenizer_.Piece(id)), " }}"));
    after_control_ = true;
  }

  // Writes an expression that is not empty.
  void Expression(std::string_view text) {
    const bool space = after_control_ && adds_space_;
    Append(absl::StrCat("{{ ", space ? "' ' + " : "", std::string(text), " }}"));
    after_control_ = false;
  }

  void Append(std::string_view text) { out_ += text; }

  void set_after_control(bool after) { after_control_ = after; }
  bool after_control() const { return after_control_; }
  std::string Take() { return std::move(out_); }

 private:
  const Tokenizer& tokenizer_;
  const ChatMarkers& markers_;
  const bool adds_space_;
  bool after_control_ = false;
  std::string out_;
};

// Returns the parts of a template's text with its markers apart.
std::vector<ChatPart> PartsOf(std::string_view text) {
  const ChatTemplate only = {.user_suffix = text};
  const ChatTurn none = {ChatRole::kUser, ""};
  return RenderChat(only, std::span(&none, 1), /*literal=*/true);
}

std::string Stripped(std::string_view text) {
  std::string stripped(text);
  absl::StripTrailingAsciiWhitespace(&stripped);
  return stripped;
}

// Writes the templates of one row of the table.
class ChatJinjaWriter {
 public:
  ChatJinjaWriter(const ChatTemplate& chat, const Tokenizer& tokenizer, const ChatMarkers& markers,
                  bool writes_spaces)
      : chat_(chat), markers_(markers), writer_(tokenizer, markers, writes_spaces) {}

  std::string Write() && {
    writer_.Append(absl::StrCat(
        "{% if messages and messages[0]['role'] == 'system' %}{% set system = "
        "messages[0]['content'] %}{% set turns = messages[1:] %}{% else %}{% set system = ",
        Quoted(chat_.default_system), " %}{% set turns = messages %}{% endif %}"));
    if (markers_.start_id().has_value()) writer_.Control(*markers_.start_id());
    const bool begins_after_control = writer_.after_control();
    writer_.Append("{% for message in turns %}{% if message['role'] == 'user' %}");
    writer_.Append("{% if loop.first and system %}");
    User(/*first=*/true, /*system=*/true);
    writer_.Append("{% elif loop.first %}");
    writer_.set_after_control(begins_after_control);
    User(/*first=*/true, /*system=*/false);
    writer_.Append("{% else %}");
    writer_.set_after_control(true);
    User(/*first=*/false, /*system=*/false);
    const bool asks_after_control = writer_.after_control();
    writer_.Append("{% endif %}{% else %}");
    Answer();
    writer_.Append("{% endif %}{% endfor %}{% if add_generation_prompt %}");
    writer_.set_after_control(asks_after_control);
    writer_.Parts(PartsOf(Stripped(chat_.assistant_prefix)));
    writer_.Append("{% endif %}");
    return writer_.Take();
  }

 private:
  void System() {
    writer_.Parts(PartsOf(chat_.system_prefix));
    writer_.Expression("system");
    writer_.Parts(PartsOf(chat_.system_suffix));
  }

  void User(bool first, bool system) {
    if (!first) writer_.Parts(PartsOf(chat_.turn_separator));
    if (system && !chat_.system_in_user) System();
    writer_.Parts(PartsOf(chat_.user_prefix));
    if (system && chat_.system_in_user) System();
    // White space before an answer belongs to the answer.
    const bool last =
        Stripped(std::string(chat_.user_suffix).append(chat_.assistant_prefix)).empty();
    writer_.Expression(last ? absl::StrCat("(", std::string(kContent), ".rstrip(",
                                           std::string(kSpaces),
                                           ") if loop.last and add_generation_prompt else ",
                                           std::string(kContent), ")")
                            : std::string(kContent));
    writer_.Parts(PartsOf(chat_.user_suffix));
  }

  void Answer() {
    writer_.Parts(PartsOf(chat_.assistant_prefix));
    if (chat_.name == "plain") {  // turns without white space between them are joined by a newline
      writer_.Append(absl::StrCat("{% if loop.previtem and loop.previtem['content'][-1:] not in ",
                                  std::string(kSpaces), " and ", std::string(kContent),
                                  "[:1] not in ", std::string(kSpaces),
                                  " %}{{ '\\n' }}{% endif %}"));
    }
    const std::string suffix = Quoted(chat_.answer_suffix);
    writer_.Expression(chat_.answer_suffix.empty()
                           ? std::string(kContent)
                           : absl::StrCat(std::string(kContent), " + ", suffix));
    writer_.Control(markers_.EndOfTurn(chat_));
  }

  const ChatTemplate& chat_;
  const ChatMarkers& markers_;
  JinjaWriter writer_;
};

}  // namespace

std::string ChatJinja(const ChatTemplate& chat, const Tokenizer& tokenizer,
                      std::optional<int32_t> start_id, bool writes_spaces) {
  const ChatMarkers markers(tokenizer, start_id);
  return ChatJinjaWriter(chat, tokenizer, markers, writes_spaces).Write();
}

std::optional<std::string> ChatTemplateOfJinja(const std::string& jinja, const Tokenizer& tokenizer,
                                               std::optional<int32_t> start_id) {
  const ChatMarkers markers(tokenizer, start_id);
  for (const ChatTemplate& chat : ChatTemplates()) {
    for (const bool writes_spaces : {false, true}) {
      if (ChatJinjaWriter(chat, tokenizer, markers, writes_spaces).Write() == jinja) {
        return std::string(chat.name);
      }
    }
  }
  return std::nullopt;
}

}  // namespace braid
