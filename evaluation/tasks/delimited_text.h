// Rows of cells: comma-separated values as RFC 4180 has them, and tab-separated ones.
//
// Debian's CSV libraries do not tell on which line a row began, and guess where a file is
// malformed; evaluation should name the line instead.
#ifndef BRAID_EVALUATION_TASKS_DELIMITED_TEXT_H_
#define BRAID_EVALUATION_TASKS_DELIMITED_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace braid {

struct DelimitedRow {
  std::vector<std::string> cells;
  // Of its first character, from 1.
  int64_t line = 0;
};

// Rows end with LF, CRLF or CR; empty lines are left out. A cell in quotation marks may hold
// commas, line ends and "" for a quotation mark; anywhere else a quotation mark is text.
// InvalidArgument, "NAME:LINE: ...", for a quoted cell without end or with text behind it.
absl::StatusOr<std::vector<DelimitedRow>> ParseCsv(absl::string_view text, absl::string_view name);

// Lines end with LF or CRLF; empty ones are left out. Quotation marks are text.
std::vector<DelimitedRow> ParseTsv(absl::string_view text);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_DELIMITED_TEXT_H_
