#include "client/terminal/table.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr int kGapColumns = 2;

using TableRow = std::vector<TableCell>;

struct TableColumn {
  int text_width = 0, suffix_width = 0;
  bool right_aligned = true;

  int width() const { return text_width + suffix_width; }
};

std::string Spaces(int count) { return std::string(static_cast<size_t>(count), ' '); }

bool LooksNumeric(const std::string& text) {
  return std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-';
}

std::vector<TableColumn> Measure(const std::vector<TableRow>& rows) {
  std::vector<TableColumn> columns;
  for (const TableRow& row : rows) {
    columns.resize(std::max(columns.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      TableColumn& column = columns[i];
      column.text_width = std::max(column.text_width, NumColumns(row[i].text));
      column.suffix_width = std::max(column.suffix_width, NumColumns(row[i].suffix));
      const bool in_header = &row == &rows.front();
      if (!in_header && !row[i].text.empty() && !LooksNumeric(row[i].text)) {
        column.right_aligned = false;
      }
    }
  }
  return columns;
}

std::string Padded(const TableCell& cell, const TableColumn& column) {
  const std::string padding = Spaces(column.text_width - NumColumns(cell.text));
  return absl::StrCat(column.right_aligned ? padding : "", cell.text,
                      column.right_aligned ? "" : padding, cell.suffix,
                      Spaces(column.suffix_width - NumColumns(cell.suffix)));
}

// The first column of a row and its columns from `begin` to `end`.
std::string Line(const TableRow& row, const std::vector<TableColumn>& columns, size_t begin,
                 size_t end) {
  std::string line = row.empty() ? "" : Padded(row[0], columns[0]);
  for (size_t i = begin; i < std::min(end, row.size()); ++i) {
    absl::StrAppend(&line, Spaces(kGapColumns), Padded(row[i], columns[i]));
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

// "beginning~end" of a text that has more than `limit` columns.
std::string Shortened(const std::string& text, int limit) {
  if (NumColumns(text) <= limit) return ClipColumns(text, limit);
  const int front = limit / 2;
  size_t back = text.size();
  for (size_t at = back; at > 0 && NumColumns(text.substr(at - 1)) < limit - front;) {
    if (!IsContinuationByte(text[--at])) back = at;
  }
  return absl::StrCat(ClipColumns(text, front), "~", ClipColumns(text.substr(back), limit));
}

}  // namespace

Table::Table(std::vector<std::string> header) { rows_.emplace_back(header.begin(), header.end()); }

void Table::Print(std::ostream& out, TableLimits limits) const {
  std::vector<TableRow> rows = rows_;
  for (TableRow& row : rows) {
    if (limits.first_column > 0 && !row.empty()) {
      row[0].text = Shortened(row[0].text, limits.first_column);
    }
  }
  const std::vector<TableColumn> columns = Measure(rows);
  size_t begin = 1;
  do {
    // A block has at least one column besides the first.
    size_t end = begin;
    int used = columns.empty() ? 0 : columns[0].width();
    while (end < columns.size()) {
      const int wider = used + kGapColumns + columns[end].width();
      if (limits.width > 0 && end > begin && wider > limits.width) break;
      used = wider;
      ++end;
    }
    if (begin > 1) out << "\n";
    for (const TableRow& row : rows) {
      if (&row == &rows.front() && row.empty()) continue;
      out << Line(row, columns, begin, end) << "\n";
    }
    begin = end;
  } while (begin < columns.size());
}

void PrintTable(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  if (rows.empty()) return;
  Table table(rows.front());
  for (size_t i = 1; i < rows.size(); ++i) table.AddRow({rows[i].begin(), rows[i].end()});
  table.Print(out);
}

}  // namespace braid
