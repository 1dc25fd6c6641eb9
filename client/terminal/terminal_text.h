// Text for a terminal: how wide it is, and figures drawn with characters.
#ifndef BRAID_CLIENT_TERMINAL_TERMINAL_TEXT_H_
#define BRAID_CLIENT_TERMINAL_TERMINAL_TEXT_H_

#include <array>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace braid {

bool IsTerminal(int file_descriptor);

// Columns of the terminal behind the descriptor; `otherwise` where it does not say.
int TerminalWidth(int file_descriptor, int otherwise = 80);

// Whether block characters may be printed: the locale of the environment (LC_ALL, else
// LC_CTYPE, else LANG) is one of UTF-8.
bool ShowsUnicode();

// From the lowest to the full block.
inline constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// UTF-8 text for a terminal, without what could confuse it or its reader: control characters (C0
// but for line breaks and tabs, DEL, C1) and those that change the direction of writing are '?'.
std::string PrintableText(std::string_view text);
// An error's message, which a server may have written, for standard error: PrintableText where that
// is a terminal.
std::string ErrorText(const absl::Status& status);

// Arguments as a shell would take them, for people to read; no shell ever does.
std::string ShellText(const std::vector<std::string>& arguments);

// The first `columns` characters of UTF-8 text, each of which is taken to be one column wide;
// control characters, which could move the cursor, become '?'.
std::string ClipColumns(std::string_view text, int columns);

// `prefix` and `text`, broken at its spaces into lines of at most `columns` characters, each with a
// line break; those after the first are indented as far as the prefix reaches. A longer word has a
// line of its own.
std::string HangingText(const std::string& prefix, const std::string& text, int columns = 80);

// "[#####...............]" for a fraction of 0.25.
std::string Bar(double fraction, int width = 20);

// One block character for each value, from the lowest to the highest of them; values
// that are not finite are blank.
std::string Sparkline(std::span<const double> values);

// A block of lines that is drawn over the one before it.
class ScreenBlock {
 public:
  explicit ScreenBlock(std::ostream& out) : out_(out) {}

  void Draw(const std::vector<std::string>& lines);
  // Removes what is drawn.
  void Erase();

 private:
  std::ostream& out_;
  int lines_drawn_ = 0;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_TERMINAL_TEXT_H_
