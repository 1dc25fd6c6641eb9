// Parses rows of cells: comma-separated values (RFC 4180) and tab-separated values.
//
// Debian's CSV libraries do not report the line on which a row begins and guess how to read a
// malformed file; evaluation should report the line instead.
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
  // Line of the row's first character, from 1.
  int64_t line = 0;
};

// Parses CSV. Rows end with LF, CRLF or CR; empty lines are skipped. A cell in quotation marks may
// hold commas, line ends and "" for a quotation mark; anywhere else a quotation mark is text.
// InvalidArgument, "NAME:LINE: ...", for a quoted cell that is not closed or is followed by text.
absl::StatusOr<std::vector<DelimitedRow>> ParseCsv(absl::string_view text, absl::string_view name);

// Parses TSV. Lines end with LF or CRLF; empty ones are skipped. Quotation marks are text.
std::vector<DelimitedRow> ParseTsv(absl::string_view text);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_DELIMITED_TEXT_H_
