#include "proto/field_help.h"

#include <cctype>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "google/protobuf/descriptor.pb.h"

namespace braid {

// Defined in the generated file embedded_settings.cc: a serialized FileDescriptorSet with source
// information.
std::span<const unsigned char> EmbeddedSettings();

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

// The pool is separate from the generated one, whose descriptors have no comments.
const DescriptorPool& CommentedSettings() {
  static const DescriptorPool* const pool = [] {
    const std::span<const unsigned char> bytes = EmbeddedSettings();
    google::protobuf::FileDescriptorSet files;
    BRAID_CHECK(files.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        << "the embedded settings are " << bytes.size() << " bytes";
    auto* const built = new DescriptorPool();
    for (const auto& file : files.file()) built->BuildFile(file);
    return built;
  }();
  return *pool;
}

// The end of the sentence that begins at `begin`: the position of its period, or of the text's end.
// A period ends a sentence only before white space and a capital letter, or at the end.
size_t SentenceEnd(std::string_view text, size_t begin) {
  for (size_t at = begin; (at = text.find('.', at)) != text.npos; ++at) {
    if (at + 1 == text.size()) return at;
    if (text[at + 1] == ' ' && at + 2 < text.size() &&
        std::isupper(static_cast<unsigned char>(text[at + 2])) != 0) {
      return at;
    }
  }
  return text.size();
}

}  // namespace

FieldHelp ParseFieldComment(std::string_view comment) {
  const std::vector<std::string> words = absl::StrSplit(
      absl::string_view(comment.data(), comment.size()), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const std::string text = absl::StrJoin(words, " ");
  FieldHelp help;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = SentenceEnd(text, begin);
    std::string sentence = text.substr(begin, end - begin);
    if (sentence.starts_with("Default")) {
      const size_t value = sentence.find_first_not_of(": ", sizeof("Default") - 1);
      sentence = value == sentence.npos ? "" : sentence.substr(value);
      help.default_value = sentence.substr(0, sentence.find_first_of(";:"));
    } else if (begin == 0) {
      help.summary = sentence;
    }
    begin = text.find_first_not_of(". ", end);
  }
  return help;
}

absl::StatusOr<FieldHelp> FindFieldHelp(const std::string& message, std::string_view path) {
  const Descriptor* type = CommentedSettings().FindMessageTypeByName(message);
  const FieldDescriptor* field = nullptr;
  for (const std::string& name :
       std::vector<std::string>(absl::StrSplit(absl::string_view(path.data(), path.size()), '.'))) {
    field = type == nullptr ? nullptr : type->FindFieldByName(name);
    if (field == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("got field \"", std::string(path), "\", expected one of ", message));
    }
    type = field->message_type();
  }
  google::protobuf::SourceLocation location;
  field->GetSourceLocation(&location);
  FieldHelp help = ParseFieldComment(location.leading_comments);
  help.field = field;
  return help;
}

}  // namespace braid
