// Live progress of one or more long activities.
//
// On a terminal every row is one line that is redrawn in place; elsewhere each
// row prints a plain line at most every few seconds, so that logs stay short.
//
//   ProgressBoard board(std::cerr, IsTerminal(2));
//   board.Update("tokenize", {.done = 10, .total = 40, .unit = "documents"});
//   board.Finish("tokenize", "40 documents in 3 s");
#ifndef BRAID_CLIENT_TERMINAL_PROGRESS_BOARD_H_
#define BRAID_CLIENT_TERMINAL_PROGRESS_BOARD_H_

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "client/terminal/terminal_text.h"

namespace braid {

// How far an activity is.
struct Progress {
  int64_t done = 0;
  int64_t total = 0;  // 0: unknown
  std::string unit = {};
  std::string detail = {};  // shown behind the bar, e.g. "loss 4.81"
  // Units per second and seconds left; negative means "measure it here".
  double rate = -1;
  double eta_seconds = -1;
};

// One line of text for a row, at most `width` columns.
std::string FormatProgress(const std::string& name, const Progress& progress,
                           double elapsed_seconds, int width);

class ProgressBoard {
 public:
  using Clock = std::chrono::steady_clock;

  ProgressBoard(std::ostream& out, bool terminal);
  ~ProgressBoard();
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  void Update(const std::string& name, const Progress& progress);
  // Replaces the row by a final line "name  message".
  void Finish(const std::string& name, const std::string& message);

 private:
  struct Row {
    std::string name;
    std::string line;
    Clock::time_point started;
    Clock::time_point printed;
  };

  Row& FindOrAdd(const std::string& name);
  void Draw();

  std::ostream& out_;
  const bool terminal_;
  std::vector<Row> rows_;
  ScreenBlock screen_;
  Clock::time_point last_draw_;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_PROGRESS_BOARD_H_
