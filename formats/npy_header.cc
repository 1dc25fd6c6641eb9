#include "formats/npy_header.h"

#include <charconv>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr char kNpyHeaderMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr size_t kAlignment = 64;
constexpr size_t kGrowthDigits = 21;  // numpy's GROWTH_AXIS_MAX_DIGITS

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) absl::StrAppend(&text, i ? ", " : "", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

uint64_t FromLittleEndian(std::string_view text) {
  uint64_t value = 0;
  for (size_t i = text.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(text[i]);
  return value;
}

// A parser of the dict literal. Every Read function skips white space, consumes what it names and
// returns whether it was there; position() is where parsing stopped.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  size_t position() const { return position_; }

  bool ReadHeader(NpyHeader* header) {
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Read("{")) return false;
    while (!Read("}")) {
      std::string key;
      if (!ReadQuoted(&key) || !Read(":")) return false;
      bool* seen = key == "descr"           ? &has_descr
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      if (seen == nullptr || *seen) return false;
      *seen = true;
      if (seen == &has_descr && !ReadQuoted(&header->descr)) return false;
      if (seen == &has_order && !ReadBool(&header->fortran_order)) return false;
      if (seen == &has_shape && !ReadShape(&header->shape)) return false;
      if (!Read(",") && !Peek("}")) return false;
    }
    SkipBlanks();
    return has_descr && has_order && has_shape && position_ == text_.size();
  }

 private:
  void SkipBlanks() {
    while (position_ < text_.size() && std::strchr(" \t\n\r", text_[position_]) &&
           text_[position_] != '\0') {
      ++position_;
    }
  }
  bool Peek(std::string_view word) {
    SkipBlanks();
    return text_.substr(position_, word.size()) == word;
  }
  bool Read(std::string_view word) {
    if (!Peek(word)) return false;
    position_ += word.size();
    return true;
  }
  bool ReadQuoted(std::string* value) {
    const char quote = Peek("'") ? '\'' : '"';
    if (!Read({&quote, 1})) return false;
    const size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) return false;
    *value = text_.substr(position_, end - position_);
    position_ = end + 1;
    return value->find('\\') == std::string::npos;
  }
  bool ReadBool(bool* value) {
    *value = Peek("True");
    return Read(*value ? "True" : "False");
  }
  bool ReadInteger(int64_t* value) {
    SkipBlanks();
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), *value);
    position_ += end - begin;
    return error == std::errc() && *value >= 0;
  }
  bool ReadShape(std::vector<int64_t>* shape) {
    if (!Read("(")) return false;
    while (!Read(")")) {
      int64_t dimension;
      if (!ReadInteger(&dimension)) return false;
      shape->push_back(dimension);
      if (!Read(",") && !Peek(")")) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t position_ = 0;
};

// The position of the dict in the file.
struct Extent {
  size_t begin;
  size_t length;
};

absl::StatusOr<Extent> FindDict(std::string_view file, const std::filesystem::path& path) {
  if (file.substr(0, kMagicBytes) != std::string_view(kNpyHeaderMagic, kMagicBytes)) {
    return CorruptFile(path,
                       {"magic", 0, "other bytes", "\\x93NUMPY", "Check that it is a .npy file"});
  }
  const int major = file.size() > kMagicBytes ? static_cast<uint8_t>(file[kMagicBytes]) : -1;
  if (major < 1 || major > 3) {
    return CorruptFile(path, {"version", kMagicBytes, absl::StrCat(major), "1, 2 or 3"});
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t begin = kMagicBytes + 2 + length_bytes;
  if (file.size() < begin) {
    return CorruptFile(path, {"length", static_cast<int64_t>(file.size()), "end of file",
                              absl::StrCat("at least ", begin, " bytes")});
  }
  const uint64_t length = FromLittleEndian(file.substr(kMagicBytes + 2, length_bytes));
  if (length > file.size() - begin) {
    return CorruptFile(path, {"header length", kMagicBytes + 2, absl::StrCat(length),
                              absl::StrCat("at most ", file.size() - begin, " (file length)")});
  }
  return Extent{begin, length};
}

}  // namespace

std::string FormatNpyHeader(std::string_view descr, std::span<const int64_t> shape) {
  std::string dict = absl::StrCat("{'descr': '", std::string(descr),
                                  "', 'fortran_order': False, 'shape': ", ShapeText(shape), ", }");
  if (!shape.empty()) dict.append(kGrowthDigits - absl::StrCat(shape[0]).size(), ' ');
  int length_bytes = 2;
  if (dict.size() + kAlignment > 65535) length_bytes = 4;
  const size_t prefix = kMagicBytes + 2 + length_bytes;
  dict.append(kAlignment - (prefix + dict.size() + 1) % kAlignment, ' ');
  dict += '\n';
  return std::string(kNpyHeaderMagic, kMagicBytes) + static_cast<char>(length_bytes / 2) + '\0' +
         LittleEndian(dict.size(), length_bytes) + dict;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view file, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const Extent dict, FindDict(file, path));
  NpyHeader header;
  DictReader reader(file.substr(dict.begin, dict.length));
  if (!reader.ReadHeader(&header)) {
    return CorruptFile(path, {"header", static_cast<int64_t>(dict.begin + reader.position()),
                              "text that does not parse",
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (..)}",
                              "Structured and object arrays are not supported"});
  }
  header.data_offset = static_cast<int64_t>(dict.begin + dict.length);
  return header;
}

}  // namespace braid
