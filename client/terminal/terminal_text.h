// Text for a terminal: its width, clipping and wrapping, and small charts.
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

// Returns whether the descriptor is a terminal.
bool IsTerminal(int file_descriptor);

// Returns the columns of the terminal that the descriptor refers to, at most those of the
// environment variable COLUMNS if it is set; `otherwise` when both are unknown.
int TerminalWidth(int file_descriptor, int otherwise = 80);

// Returns whether block characters may be printed: whether the locale of the environment (LC_ALL,
// LC_CTYPE or LANG, the first that is set) uses UTF-8.
bool ShowsUnicode();

// Block characters from the lowest to the full block.
inline constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// Returns UTF-8 text that is safe to print on a terminal: control characters (C0 except line breaks
// and tabs, DEL, C1) and characters that change the writing direction are replaced by '?'.
std::string PrintableText(std::string_view text);
// Returns the message of an error for standard error: as PrintableText when that is a terminal,
// since the message may come from a server.
std::string ErrorText(const absl::Status& status);

// Returns arguments quoted as for bash, without control characters.
std::string ShellText(const std::vector<std::string>& arguments);

// Returns the number of columns that UTF-8 text takes on a terminal: East Asian characters and
// emoji take two, combining characters none.
int NumColumns(std::string_view text);

// Returns the longest beginning of UTF-8 text that takes at most `columns` columns. Control
// characters, which could move the cursor, and characters that change the writing direction are
// replaced by '?'.
std::string ClipColumns(std::string_view text, int columns);

// Returns text with spaces after it, so that it takes at least `columns` columns.
std::string PadColumns(std::string_view text, int columns);

// Returns `prefix` and `text` wrapped at spaces into lines of at most `columns` columns, each
// with a line break. Lines after the first are indented by the width of the prefix. A longer word
// has its own line.
std::string HangingText(const std::string& prefix, const std::string& text, int columns = 80);

// Returns a progress bar: "[#####...............]" for a fraction of 0.25.
std::string Bar(double fraction, int width = 20);

// Returns one block character per value, scaled from the lowest to the highest value; values that
// are not finite are blank.
std::string Sparkline(std::span<const double> values);

// A block of lines that is redrawn in place.
class ScreenBlock {
 public:
  // With the descriptor of a terminal, only lines that fit on it are drawn: Erase cannot reach
  // lines that have left the screen.
  explicit ScreenBlock(std::ostream& out, int terminal = -1) : out_(out), terminal_(terminal) {}

  // Replaces the drawn lines.
  void Draw(const std::vector<std::string>& lines);
  // Removes the drawn lines.
  void Erase();
  // Leaves the drawn lines on the screen: other text, or the next block, follows them.
  void Keep() { lines_drawn_ = 0; }

 private:
  std::ostream& out_;
  const int terminal_;
  int lines_drawn_ = 0;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_TERMINAL_TEXT_H_
