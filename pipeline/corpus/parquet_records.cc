#include "pipeline/corpus/parquet_records.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace braid {
namespace {

bool HasText(const ParquetColumn& column) {
  return column.max_repetition_level == 0 && column.type == ParquetType::kByteArray &&
         !column.is_decimal;
}

// Returns whether values of the column can name something.
bool HasLabels(const ParquetColumn& column) {
  return HasText(column) ||
         (column.max_repetition_level == 0 && !column.is_decimal &&
          (column.type == ParquetType::kInt32 || column.type == ParquetType::kInt64 ||
           column.type == ParquetType::kBoolean));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParquetRecords>> ParquetRecords::Open(
    const std::filesystem::path& path, std::span<const std::string> text, const std::string& id,
    const std::string& domain) {
  ASSIGN_OR_RETURN(ParquetReader reader, ParquetReader::Open(path));
  std::unique_ptr<ParquetRecords> records(new ParquetRecords(std::move(reader)));
  const std::vector<ParquetColumn>& columns = records->reader_.columns();
  const auto find = [&](const std::string& name, auto&& suits) {
    return std::ranges::any_of(
        columns, [&](const ParquetColumn& column) { return column.name == name && suits(column); });
  };
  const auto found =
      std::ranges::find_if(text, [&](const std::string& name) { return find(name, HasText); });
  if (found == text.end()) {
    const auto name = [](std::string* out, const ParquetColumn& column) {
      absl::StrAppend(out, column.name);
    };
    return absl::NotFoundError(
        absl::StrCat(path.string(), ": got the columns ", absl::StrJoin(columns, ", ", name),
                     ", expected one of text named ", absl::StrJoin(text, " or ")));
  }
  records->text_column_ = *found;
  std::vector<std::string> selected = {*found};
  for (const auto& [name, number] :
       {std::pair(&id, &records->id_), std::pair(&domain, &records->domain_)}) {
    if (!find(*name, HasLabels)) continue;
    *number = static_cast<int>(selected.size());
    selected.push_back(*name);
  }
  RETURN_IF_ERROR(records->reader_.Select(selected));
  return records;
}

std::optional<std::string> ParquetRecords::Label(int column) const {
  if (column < 0) return std::nullopt;
  const auto i = static_cast<size_t>(column);
  const ParquetCell& cell = reader_.cell(i);
  if (cell.is_null) return std::nullopt;
  const ParquetColumn& type = reader_.selected(i);
  if (type.type == ParquetType::kBoolean) return cell.integer != 0 ? "true" : "false";
  if (type.type == ParquetType::kByteArray) {
    if (cell.bytes.empty() || !IsValidUtf8(cell.bytes)) return std::nullopt;
    return std::string(cell.bytes);
  }
  return type.is_unsigned ? absl::StrCat(static_cast<uint64_t>(cell.integer))
                          : absl::StrCat(cell.integer);
}

absl::StatusOr<bool> ParquetRecords::Next(ParquetRecord* record) {
  if (row() == num_rows()) return false;
  record->row = row();
  RETURN_IF_ERROR(reader_.Next());
  const ParquetCell& text = reader_.cell(0);
  record->text = text.is_null ? std::nullopt : std::optional(text.bytes);
  record->id = Label(id_);
  record->domain = Label(domain_);
  return true;
}

}  // namespace braid
