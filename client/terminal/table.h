// Tables of text for a terminal: column alignment, width limit and truncation.
//
//   Table table({"NAME", "COUNT"});
//   table.AddRow({"words", "1,234"});
//   table.Print(std::cout);
#ifndef BRAID_CLIENT_TERMINAL_TABLE_H_
#define BRAID_CLIENT_TERMINAL_TABLE_H_

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace braid {

// A cell. The suffix follows the text; the suffixes of a column are aligned with each other, as in
// "12.5 ±0.25".
struct TableCell {
  TableCell(std::string cell_text, std::string cell_suffix = "")
      : text(std::move(cell_text)), suffix(std::move(cell_suffix)) {}
  TableCell(const char* cell_text) : text(cell_text) {}

  std::string text;
  std::string suffix;
};

// Limits of a table in columns of the terminal; 0 means unlimited.
struct TableLimits {
  // A wider table is printed in several blocks, each of which repeats the first column. A single
  // column may still exceed the limit.
  int width = 0;
  // Longer cells of the first column are shortened to "beginning~end", which keeps names with a
  // common prefix apart.
  int first_column = 0;
};

// Rows of cells under a header. Columns are separated by two spaces and padded to their widest
// cell. A column whose cells below the header all begin with a digit or '-' is right-aligned
// together with its header; other columns are left-aligned. Widths are those of NumColumns. Rows
// may have fewer cells than the header.
class Table {
 public:
  // An empty header is not printed.
  explicit Table(std::vector<std::string> header);

  void AddRow(std::vector<TableCell> cells) { rows_.push_back(std::move(cells)); }
  // Returns the number of rows without the header.
  size_t num_rows() const { return rows_.size() - 1; }

  void Print(std::ostream& out, TableLimits limits = {}) const;

 private:
  // The header, then the rows.
  std::vector<std::vector<TableCell>> rows_;
};

// Prints rows of text as a Table whose header is the first row.
void PrintTable(const std::vector<std::vector<std::string>>& rows, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_TABLE_H_
