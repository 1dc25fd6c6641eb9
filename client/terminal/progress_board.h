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

// The progress of an activity.
struct Progress {
  int64_t done = 0;
  // 0 when unknown.
  int64_t total = 0;
  std::string unit = {};
  // Shown after the bar: "loss 4.81".
  std::string detail = {};
  // Units per second and seconds left; a negative value is replaced by a measurement.
  double rate = -1;
  double eta_seconds = -1;
};

// Returns the progress that an event of a service reports.
template <class Event>
Progress ProgressOf(const Event& event, const std::string& unit) {
  return {.done = event.done(), .total = event.total(), .unit = unit};
}

// Returns the line of a row, at most `width` columns.
std::string FormatProgress(const std::string& name, const Progress& progress,
                           double elapsed_seconds, int width);

// A board with one row per activity. Not thread-safe.
class ProgressBoard {
 public:
  using Clock = std::chrono::steady_clock;

  ProgressBoard(std::ostream& out, bool terminal);
  ~ProgressBoard();
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  // Adds or redraws a row.
  void Update(const std::string& name, const Progress& progress);
  // Prints a line "name  message" and keeps the row.
  void Note(const std::string& name, const std::string& message);
  // Replaces the row with a final line "name  message".
  void Finish(const std::string& name, const std::string& message);
  // Leaves the rows on the screen and forgets them. Without it, text that is printed while rows are
  // shown is overwritten when they are redrawn, at the latest by the destructor.
  void Close();

 private:
  struct Row {
    std::string name;
    std::string line;
    Clock::time_point started;
    Clock::time_point printed;
  };

  Row& FindOrAdd(const std::string& name);
  void PrintLine(const std::string& name, const std::string& message);
  void Draw();

  std::ostream& out_;
  const bool terminal_;
  std::vector<Row> rows_;
  ScreenBlock screen_;
  Clock::time_point last_draw_;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_PROGRESS_BOARD_H_
