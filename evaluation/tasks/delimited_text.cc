#include "evaluation/tasks/delimited_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace braid {
namespace {

class CsvParser {
 public:
  CsvParser(absl::string_view text, absl::string_view name) : text_(text), name_(name) {}

  absl::StatusOr<std::vector<DelimitedRow>> Rows() {
    std::vector<DelimitedRow> rows;
    while (at_ < text_.size()) {
      if (AtLineEnd()) {
        SkipLineEnd();
        continue;
      }
      ASSIGN_OR_RETURN(DelimitedRow row, Row());
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  bool AtLineEnd() const { return text_[at_] == '\n' || text_[at_] == '\r'; }
  bool AtCellEnd() const { return at_ == text_.size() || text_[at_] == ',' || AtLineEnd(); }

  void SkipLineEnd() {
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    ++at_;
    ++line_;
  }

  absl::StatusOr<DelimitedRow> Row() {
    DelimitedRow row;
    row.line = line_;
    while (true) {
      ASSIGN_OR_RETURN(std::string cell, Cell());
      row.cells.push_back(std::move(cell));
      if (at_ == text_.size()) return row;
      if (AtLineEnd()) {
        SkipLineEnd();
        return row;
      }
      ++at_;  // skips the comma
    }
  }

  absl::StatusOr<std::string> Cell() {
    if (at_ < text_.size() && text_[at_] == '"') return QuotedCell();
    const size_t begin = at_;
    while (!AtCellEnd()) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  absl::StatusOr<std::string> QuotedCell() {
    const int64_t began = line_;
    std::string cell;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ == text_.size() || text_[at_] != '"') return EndOfQuotes(std::move(cell));
      }
      if (text_[at_] == '\n') ++line_;
      cell += text_[at_];
    }
    return Error(began, "quoted cell is not closed");
  }

  absl::StatusOr<std::string> EndOfQuotes(std::string cell) const {
    if (AtCellEnd()) return cell;
    return Error(
        line_, "text after the closing quotation mark of a cell; write \"\" for a quotation mark");
  }

  absl::Status Error(int64_t line, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", line, ": ", message));
  }

  const absl::string_view text_;
  const absl::string_view name_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace

absl::StatusOr<std::vector<DelimitedRow>> ParseCsv(absl::string_view text, absl::string_view name) {
  return CsvParser(text, name).Rows();
}

std::vector<DelimitedRow> ParseTsv(absl::string_view text) {
  std::vector<DelimitedRow> rows;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (!line.empty()) rows.push_back({absl::StrSplit(line, '\t'), number});
  }
  return rows;
}

}  // namespace braid
