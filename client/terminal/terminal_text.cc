#include "client/terminal/terminal_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr int kNumBlocks = static_cast<int>(kBlocks.size());

bool IsControl(char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F; }

// Returns whether the character of two or three bytes is a C1 control, or one of U+061C, U+200E,
// U+200F, U+202A to U+202E and U+2066 to U+2069.
bool MisleadsReaders(std::string_view character) {
  if (character.size() == 2) {
    return (character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0) ||
           character == "\xD8\x9C";
  }
  if (!character.starts_with("\xE2\x80") && !character.starts_with("\xE2\x81")) return false;
  const auto last = static_cast<unsigned char>(character[2]);
  if (character[1] == '\x81') return last >= 0xA6 && last <= 0xA9;
  return last == 0x8E || last == 0x8F || (last >= 0xAA && last <= 0xAE);
}

// Returns the first character of `text`, which must not be empty, or the bytes in its place.
std::string_view FirstCharacter(std::string_view text) {
  size_t end = 1;
  while (end < text.size() && IsContinuationByte(text[end])) ++end;
  return text.substr(0, end);
}

bool IsUnsafe(std::string_view character) {
  return IsControl(character.front()) ||
         ((character.size() == 2 || character.size() == 3) && MisleadsReaders(character));
}

}  // namespace

bool IsTerminal(int file_descriptor) { return isatty(file_descriptor) == 1; }

int TerminalWidth(int file_descriptor, int otherwise) {
  winsize size = {};
  const bool known = ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const char* const text = std::getenv("COLUMNS");
  int wanted = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &wanted) || wanted < 1) {
    return known ? size.ws_col : otherwise;
  }
  return known ? std::min<int>(wanted, size.ws_col) : wanted;
}

bool ShowsUnicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = absl::AsciiStrToLower(value);
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

std::string PrintableText(std::string_view text) {
  std::string printable;
  for (; !text.empty(); text.remove_prefix(FirstCharacter(text).size())) {
    const std::string_view character = FirstCharacter(text);
    const bool breaks = character.front() == '\n' || character.front() == '\t';
    printable += IsUnsafe(character) && !breaks ? "?" : character;
  }
  return printable;
}

std::string ErrorText(const absl::Status& status) {
  const std::string message(status.message());
  return IsTerminal(STDERR_FILENO) ? PrintableText(message) : message;
}

std::string ShellText(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    const bool plain = !argument.empty() && std::ranges::none_of(argument, IsControl) &&
                       argument.find_first_of(" \"'\\$;&|<>*?()[]{}!#~`") == std::string::npos;
    const std::string escaped = absl::CHexEscape(argument);
    // Between plain quotes a shell takes escapes literally.
    const char* const quote = escaped == argument ? "'" : "$'";
    absl::StrAppend(&line, line.empty() ? "" : " ",
                    plain ? argument : absl::StrCat(quote, escaped, "'"));
  }
  return line;
}

int NumColumns(std::string_view text) {
  int columns = 0;
  for (; !text.empty(); text.remove_prefix(FirstCharacter(text).size())) {
    columns += CharacterColumns(FirstCharacter(text));
  }
  return columns;
}

std::string ClipColumns(std::string_view text, int columns) {
  std::string clipped;
  for (; !text.empty(); text.remove_prefix(FirstCharacter(text).size())) {
    const std::string_view character = FirstCharacter(text);
    const bool unsafe = IsUnsafe(character);
    columns -= unsafe ? 1 : CharacterColumns(character);
    if (columns < 0) break;
    clipped += unsafe ? "?" : character;
  }
  return clipped;
}

std::string PadColumns(std::string_view text, int columns) {
  return std::string(text).append(static_cast<size_t>(std::max(0, columns - NumColumns(text))),
                                  ' ');
}

std::string HangingText(const std::string& prefix, const std::string& text, int columns) {
  const int indent = NumColumns(prefix);
  std::string lines = prefix;
  int used = indent;
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    const int length = NumColumns(word);
    const bool is_first = used == indent;
    if (!is_first && used + 1 + length > columns) {
      absl::StrAppend(&lines, "\n", std::string(static_cast<size_t>(indent), ' '), word);
      used = indent + length;
    } else {
      absl::StrAppend(&lines, is_first ? "" : " ", word);
      used += length + (is_first ? 0 : 1);
    }
  }
  return lines + "\n";
}

std::string Bar(double fraction, int width) {
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  return absl::StrCat("[", std::string(filled, '#'), std::string(width - filled, '.'), "]");
}

std::string Sparkline(std::span<const double> values) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string line;
  for (const double value : values) {
    const double height = high > low ? (value - low) / (high - low) : 0.5;
    const int block = std::min(kNumBlocks - 1, static_cast<int>(height * kNumBlocks));
    line += std::isfinite(value) ? kBlocks[block] : " ";
  }
  return line;
}

void ScreenBlock::Draw(const std::vector<std::string>& lines) {
  Erase();
  winsize size = {};
  const bool known = ioctl(terminal_, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
  const size_t room = known ? size.ws_row - 1u : lines.size();  // the cursor is on the last line
  const size_t shown = lines.size() > room ? room - 1 : lines.size();
  for (size_t i = 0; i < shown; ++i) out_ << lines[i] << "\n";
  if (shown < lines.size()) out_ << "... and " << lines.size() - shown << " more\n";
  lines_drawn_ = static_cast<int>(std::min(lines.size(), room));
  out_.flush();
}

void ScreenBlock::Erase() {
  for (; lines_drawn_ > 0; --lines_drawn_) out_ << "\x1b[1A\x1b[2K";
  out_.flush();
}

}  // namespace braid
