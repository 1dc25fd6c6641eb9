// Timelines: one row per run, with periods of time and marks.
#ifndef BRAID_REPORT_TIME_LINE_H_
#define BRAID_REPORT_TIME_LINE_H_

#include <string>
#include <vector>

namespace braid {

struct TimeLine {
  std::string description;
  struct Stretch {
    double start = 0, end = 0;  // seconds since the start of the row
    std::string css_class;      // "busy", "idle" or "lost"
    std::string title;
  };
  struct Mark {
    double time = 0;
    std::string title;
  };
  struct Row {
    std::string label;
    int color = 0;
    std::vector<Stretch> stretches;
    std::vector<Mark> marks;
    std::string css_class = {};
  };
  std::vector<Row> rows;
  int width = 640;
};

// Returns the timeline twice, for wide and for narrow pages; "" without rows. The axis is in
// seconds, minutes, hours or days, depending on the range.
std::string RenderTimeLine(TimeLine line);

}  // namespace braid

#endif  // BRAID_REPORT_TIME_LINE_H_
