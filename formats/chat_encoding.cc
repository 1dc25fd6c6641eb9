#include "formats/chat_encoding.h"

#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "formats/joined_text.h"

namespace braid {
namespace {

using EncodeChatText = absl::FunctionRef<std::vector<int32_t>(std::string_view)>;

// Appends tokens, of text that follows the tokens so far, from parts of a conversation.
class ChatTokenWriter {
 public:
  ChatTokenWriter(EncodeChatText encode, const ChatMarkers& markers, EncodedChat* out)
      : encode_(encode), markers_(markers), out_(*out) {
    if (markers.start_id().has_value()) out_.tokens.push_back(*markers.start_id());
  }

  void Add(const ChatPart& part) {
    switch (part.kind) {
      case ChatPart::kText:
        context_ += part.text;
        return;
      case ChatPart::kMarker:
        return Marker(part);
      case ChatPart::kAnswer:
        return Answer(part.text);
      case ChatPart::kEndOfTurn:
        out_.tokens.push_back(markers_.Find(part).value_or(markers_.eos_id()));
        ++out_.answers.back().end;
    }
  }

  // Encodes the text that is left, without the white space that joins the next answer.
  void Finish() {
    absl::StripTrailingAsciiWhitespace(&context_);
    Flush();
    if (out_.tokens.empty()) out_.tokens.push_back(markers_.eos_id());
  }

 private:
  void Marker(const ChatPart& part) {
    if (const std::optional<int32_t> id = markers_.Find(part); id.has_value()) {
      Flush();
      out_.tokens.push_back(*id);
    } else if (!part.text.starts_with('{')) {
      context_ += part.text;
    }
  }

  void Answer(const std::string& text) {
    const JoinedTokens pair = EncodeExactly(encode_, context_, text);
    context_.clear();
    Append(pair.context);
    // The first target needs a token before it.
    if (out_.tokens.empty()) out_.tokens.push_back(markers_.eos_id());
    const auto begin = static_cast<int32_t>(out_.tokens.size());
    out_.has_empty_answer |= pair.continuations[0].empty();
    Append(pair.continuations[0]);
    out_.answers.push_back({begin, static_cast<int32_t>(out_.tokens.size())});
  }

  void Flush() {
    if (!context_.empty()) Append(encode_(context_));
    context_.clear();
  }

  void Append(std::span<const int32_t> tokens) {
    out_.tokens.insert(out_.tokens.end(), tokens.begin(), tokens.end());
  }

  const EncodeChatText encode_;
  const ChatMarkers& markers_;
  EncodedChat& out_;
  std::string context_;  // text that is not encoded yet
};

}  // namespace

EncodedChat EncodeChat(std::span<const ChatPart> parts, const ChatMarkers& markers,
                       absl::FunctionRef<std::vector<int32_t>(std::string_view)> encode) {
  EncodedChat chat;
  ChatTokenWriter writer(encode, markers, &chat);
  for (const ChatPart& part : parts) writer.Add(part);
  writer.Finish();
  return chat;
}

}  // namespace braid
