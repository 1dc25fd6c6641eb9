#include "pipeline/supervised/json_objects.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr int kRecordDepth = 16;
constexpr std::string_view kJsonSpace = " \t\r\n";

// Walks over the elements of an array and counts lines.
class ArrayElements {
 public:
  explicit ArrayElements(std::string_view text) : text_(text) {}

  int64_t line() const { return line_; }

  // Returns the place of the element that begins at the current position. Called once for each.
  std::string TakePlace(const std::string& file) {
    num_on_line_ = line_ == last_begin_ ? num_on_line_ + 1 : 1;
    last_begin_ = line_;
    const std::string place = absl::StrCat(file, ":", line_);
    return num_on_line_ == 1 ? place : absl::StrCat(place, "#", num_on_line_);
  }
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  void SkipSpace() { Advance(std::min(text_.find_first_not_of(kJsonSpace, at_), text_.size())); }
  void SkipCharacter() { Advance(at_ + 1); }

  // Returns the text of the value at the current position and moves to its end: a whole object or
  // array if its brackets match, otherwise the text up to the next comma or bracket.
  std::string_view Take() {
    const size_t begin = at_;
    Advance(peek() == '{' || peek() == '[' ? EndOfBrackets() : EndOfScalar());
    return text_.substr(begin, at_ - begin);
  }

 private:
  size_t EndOfBrackets() const {
    int depth = 0;
    for (size_t i = at_; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '"') i = EndOfString(i);
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return i + 1;
    }
    return text_.size();
  }

  // Returns the position of the quote that ends the string at `i`, or the last position.
  size_t EndOfString(size_t i) const {
    for (++i; i < text_.size() && text_[i] != '"'; ++i) {
      if (text_[i] == '\\') ++i;
    }
    return std::min(i, text_.size() - 1);
  }

  size_t EndOfScalar() const {
    size_t end = peek() == '"' ? EndOfString(at_) + 1 : at_;
    end = std::min(text_.find_first_of(",]}", end), text_.size());
    return std::max(end, std::min(at_ + 1, text_.size()));
  }

  void Advance(size_t to) {
    line_ += std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                        text_.begin() + static_cast<std::ptrdiff_t>(to), '\n');
    at_ = to;
  }

  const std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t last_begin_ = 0, num_on_line_ = 0;  // the line of the last element, and those on it
};

// Returns the error of an element without the library's position, which counts from the element.
absl::Status NotJson(const std::string& place, std::string_view text, std::string_view message) {
  const size_t position = message.find("parse error at ");
  const size_t colon = message.find(": ", position);
  if (position == 0 && colon != message.npos) message.remove_prefix(colon + 2);
  const std::string_view start = text.substr(0, Utf8PrefixLength(text, 40));
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": got ", std::string(start), start.size() < text.size() ? "..." : "",
                   ", expected a JSON object: ", std::string(message)));
}

absl::Status TakeOne(std::string_view text, const std::string& place, TakeJsonObject take) {
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        place,
        ": got bytes that are not UTF-8, expected UTF-8; convert the file, for example with "
        "iconv -t UTF-8"));
  }
  const absl::StatusOr<nlohmann::json> object = ParseStrictJson(text, kRecordDepth);
  if (!object.ok()) return NotJson(place, text, std::string(object.status().message()));
  if (object->is_object()) return take(*object, place);
  return absl::InvalidArgumentError(absl::StrCat(
      place, ": got ", object->type_name(), ", expected an object with the fields of one example"));
}

absl::Status ForEachElement(std::string_view text, const std::string& file, TakeJsonObject take) {
  ArrayElements elements(text);
  const auto fail = [&](std::string_view got, std::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat(file, ":", elements.line(), ": got ",
                                                   std::string(got), ", expected ",
                                                   std::string(expected)));
  };
  elements.SkipSpace();
  elements.SkipCharacter();
  elements.SkipSpace();
  bool more = elements.peek() != ']';
  while (more) {
    if (elements.at_end()) return fail("the end of the file", "the next element of the array");
    const std::string place = elements.TakePlace(file);
    RETURN_IF_ERROR(TakeOne(elements.Take(), place, take));
    elements.SkipSpace();
    if (elements.at_end()) return fail("the end of the file", "']' at the end of the array");
    more = elements.peek() == ',';
    if (!more && elements.peek() != ']') return fail("another value", "',' between elements");
    if (more) elements.SkipCharacter();
    elements.SkipSpace();
  }
  elements.SkipCharacter();
  elements.SkipSpace();
  return elements.at_end() ? absl::OkStatus() : fail("text after the array", "the end of the file");
}

}  // namespace

absl::Status ForEachJsonObject(std::string_view text, const std::string& file,
                               TakeJsonObject take) {
  const size_t first = text.find_first_not_of(kJsonSpace);
  if (first == text.npos) return absl::OkStatus();
  if (text[first] == '[') return ForEachElement(text, file, take);
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    ++number;
    if (line.find_first_not_of(kJsonSpace) != line.npos) {
      RETURN_IF_ERROR(TakeOne(line, absl::StrCat(file, ":", number), take));
    }
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return absl::OkStatus();
}

}  // namespace braid
