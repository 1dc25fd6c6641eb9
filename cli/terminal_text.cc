#include "cli/terminal_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace braid {
namespace {

constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr int kNumBlocks = 8;

bool ContinuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

bool IsControl(char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F; }

}  // namespace

bool IsTerminal(int file_descriptor) { return isatty(file_descriptor) == 1; }

int TerminalWidth(int file_descriptor, int otherwise) {
  winsize size = {};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return size.ws_col;
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

std::string ClipColumns(std::string_view text, int columns) {
  std::string clipped;
  for (const char byte : text) {
    if (!ContinuesCharacter(byte) && columns-- <= 0) break;
    clipped.push_back(IsControl(byte) ? '?' : byte);
  }
  return clipped;
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
  for (const std::string& line : lines) out_ << line << "\n";
  lines_drawn_ = static_cast<int>(lines.size());
  out_.flush();
}

void ScreenBlock::Erase() {
  for (; lines_drawn_ > 0; --lines_drawn_) out_ << "\x1b[1A\x1b[2K";
  out_.flush();
}

}  // namespace braid
