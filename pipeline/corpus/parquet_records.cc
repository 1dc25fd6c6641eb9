#include "pipeline/corpus/parquet_records.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "pipeline/corpus/parquet_values.h"

namespace braid {
namespace {

bool HasText(const ParquetColumn& column) {
  return column.max_repetition_level == 0 && column.type == ParquetType::kByteArray &&
         !column.is_decimal;
}

// A row counts as this many bytes, those of a line about it, in the limit of expansion: pages of
// nulls or of one repeated value have millions of rows in a few bytes.
constexpr int64_t kBytesPerRow = 100;

// Returns whether values of the column can name something.
bool HasLabels(const ParquetColumn& column) {
  return HasText(column) ||
         (column.max_repetition_level == 0 && !column.is_decimal &&
          (column.type == ParquetType::kInt32 || column.type == ParquetType::kInt64 ||
           column.type == ParquetType::kBoolean));
}

// Returns whether values of the column are lists of numbers.
bool HasVectors(const ParquetColumn& column) {
  return column.max_repetition_level == 1 && !column.is_decimal &&
         (column.type == ParquetType::kFloat || column.type == ParquetType::kDouble);
}

// Returns the number of a column among those selected, to which it is added once.
int Selected(const std::string& name, std::vector<std::string>* selected) {
  const auto found = std::ranges::find(*selected, name);
  const auto number = static_cast<int>(found - selected->begin());
  if (found == selected->end()) selected->push_back(name);
  return number;
}

Record Bomb(int64_t row, std::string detail) {
  return {.kind = RecordKind::kDamage,
          .offset = row,
          .reason = "decompression bomb",
          .detail = std::move(detail),
          .shows_fields = true,
          .is_last = true};
}

absl::Status AsSettingError(const absl::Status& status) {
  return absl::IsUnimplemented(status) ? absl::InvalidArgumentError(status.message()) : status;
}

}  // namespace

const ParquetColumn* ParquetRecords::Find(const std::string& name) const {
  const auto found = std::ranges::find(reader_->columns(), name, &ParquetColumn::name);
  return found == reader_->columns().end() ? nullptr : &*found;
}

std::vector<std::string> ParquetRecords::ColumnNames() const {
  std::vector<std::string> names;
  for (const ParquetColumn& column : reader_->columns()) names.push_back(column.name);
  return names;
}

absl::Status ParquetRecords::Open() {
  ASSIGN_OR_RETURN(ParquetReader reader, ParquetReader::Open(file_.path));
  reader_ = std::move(reader);
  return absl::OkStatus();
}

// Determines the text column; NOT_FOUND, with the names of all columns, if there is none.
absl::Status ParquetRecords::FindText() {
  for (const std::string& name : settings_.text_fields) {
    const ParquetColumn* const column = Find(name);
    if (column == nullptr || !HasText(*column)) continue;
    text_column_ = name;
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat(file_.path.string(), ": got the columns ", absl::StrJoin(ColumnNames(), ", "),
                   ", expected one of text named ", absl::StrJoin(settings_.text_fields, " or ")));
}

absl::Status ParquetRecords::SelectColumns() {
  std::vector<std::string> selected = {text_column_};
  for (const auto& [name, number] :
       {std::pair(&settings_.id_field, &id_), std::pair(&settings_.domain_field, &domain_)}) {
    const ParquetColumn* const column = Find(*name);
    if (column != nullptr && HasLabels(*column)) *number = Selected(*name, &selected);
  }
  RETURN_IF_ERROR(CheckEmbeddingColumn(&selected));
  RETURN_IF_ERROR(CheckFilterColumns(&selected));
  RETURN_IF_ERROR(reader_->Select(selected));
  // Filters and domains use one value at a time, but a row of a list holds all of its elements.
  std::set<size_t> limited = {0};
  for (const int column : {id_, embedding_}) {
    if (column >= 0) limited.insert(static_cast<size_t>(column));
  }
  for (const size_t column : filter_columns_) {
    if (reader_->selected(column).max_repetition_level > 0) limited.insert(column);
  }
  for (const size_t column : limited) {
    reader_->LimitExpansion(column, settings_.expansion_limit.max_ratio,
                            settings_.expansion_limit.min_bytes);
  }
  return absl::OkStatus();
}

absl::Status ParquetRecords::CheckEmbeddingColumn(std::vector<std::string>* selected) {
  const std::string& name = settings_.embedding_field;
  if (name.empty()) return absl::OkStatus();
  const ParquetColumn* const column = Find(name);
  if (column == nullptr) {
    return MissingField(file_.path.string(), "ingest.embedding_field", name, ColumnNames());
  }
  if (!HasVectors(*column)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path.string(), ": ingest.embedding_field: got column \"", name,
                     "\" of another type, expected lists of FLOAT or DOUBLE"));
  }
  embedding_ = Selected(name, selected);
  return absl::OkStatus();
}

absl::Status ParquetRecords::CheckFilterColumns(std::vector<std::string>* selected) {
  if (settings_.filter == nullptr) return absl::OkStatus();
  for (const FilterField& field : settings_.filter->fields()) {
    const ParquetColumn* const column = Find(field.name);
    if (column == nullptr) {
      return MissingField(file_.path.string(), "ingest.where", field.name, ColumnNames());
    }
    const FieldType type = FieldTypeOf(*column);
    if (field.type != FieldType::kAny && type != field.type) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path.string(), ": ingest.where: column \"", field.name, "\" holds ",
                       type == FieldType::kAny ? "lists, decimals or INT96" : NameOf(type),
                       ", the expression compares it with ", NameOf(field.type)));
    }
    filter_columns_.push_back(static_cast<size_t>(Selected(field.name, selected)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Record> ParquetRecords::Damage(int64_t row, const absl::Status& error) const {
  if (absl::IsUnimplemented(error)) return AsSettingError(error);
  if (!absl::IsResourceExhausted(error)) return DamageAt(row, error);
  // A page beyond the limits of the reader.
  return Bomb(row, absl::StrCat(error.message()));
}

// Opens the file in the first step.
absl::StatusOr<Record> ParquetRecords::OpenFirst(bool first) {
  if (const absl::Status opened = Open(); !opened.ok()) {
    ASSIGN_OR_RETURN(Record damage, Damage(0, opened));
    damage.shows_fields = true;
    return damage;
  }
  const absl::Status found = FindText();
  if (found.ok()) {
    RETURN_IF_ERROR(SelectColumns());
    return Record{.kind = RecordKind::kBlank, .shows_fields = true};
  }
  if (first) {
    return absl::InvalidArgumentError(absl::StrCat(
        found.message(),
        settings_.fixed
            ? "; rename the column that holds the text to \"text\""
            : "; set ingest.text_field (--text-field) to the column that holds the text"));
  }
  return Record{.kind = RecordKind::kReject,
                .reason = "missing text field",
                .detail = std::string(found.message()),
                .shows_fields = true,
                .is_last = true};
}

absl::Status ParquetRecords::SkipTo(int64_t position, const std::string&,
                                    const std::function<absl::Status()>&) {
  RETURN_IF_ERROR(AsSettingError(Open()));
  RETURN_IF_ERROR(FindText());
  RETURN_IF_ERROR(SelectColumns());
  if (position > reader_->num_rows()) {
    return absl::OutOfRangeError(absl::StrCat("no row ", position));
  }
  return AsSettingError(reader_->Seek(position));
}

// Returns the record that stands for the rows from `group` on if they are more than the size of the
// file allows.
std::optional<Record> ParquetRecords::TooManyRows(const ParquetRowGroup& group) const {
  const ExpansionLimit& limit = settings_.expansion_limit;
  const int64_t stored = file_.version.bytes;
  const int64_t ratio = std::min(limit.max_ratio, limit.max_bytes / std::max<int64_t>(stored, 1));
  const int64_t most = std::max(limit.min_bytes, stored * ratio) / kBytesPerRow;
  if (group.num_rows <= most - reader_->row()) return std::nullopt;
  return Bomb(reader_->row(),
              absl::StrCat(file_.path.string(), ", column \"", text_column_,
                           "\", row group at row ", reader_->row(), ": got ", group.num_rows,
                           " rows, expected at most ", most, " in a file of ", stored,
                           " bytes; for a file that is meant to expand so far, raise "
                           "ingest.max_expansion_ratio in a corpus job"));
}

absl::StatusOr<Record> ParquetRecords::Next(const CorpusSoFar& so_far) {
  if (!reader_) return OpenFirst(!so_far.fields_shown);
  if (reader_->row() == reader_->num_rows()) return Record{.is_last = true};
  const ParquetRowGroup* const group = reader_->group_at_row();
  if (group == nullptr) return ReadRow();
  if (std::optional<Record> bomb = TooManyRows(*group)) return *std::move(bomb);
  if (MayKeepGroup(*group)) return ReadRow();
  Record record{
      .kind = RecordKind::kFiltered, .offset = reader_->row(), .num_filtered = group->num_rows};
  reader_->SkipGroup();
  return record;
}

absl::StatusOr<Record> ParquetRecords::ReadRow() {
  Record record{.kind = RecordKind::kText, .offset = reader_->row()};
  const absl::Status read = reader_->Next();
  if (!read.ok()) return LeaveGroup(read);
  if (!KeepsRow()) {
    record.kind = RecordKind::kFiltered;
    record.num_filtered = 1;
    return record;
  }
  record.id = Label(id_);
  const ParquetCell& text = reader_->cell(0);
  if (text.is_null) {
    record.kind = RecordKind::kReject;
    record.reason = "missing text field";
    return record;
  }
  record.text = text.bytes;
  record.domain = Label(domain_);
  if (embedding_ >= 0) {
    const ParquetCell& cell = reader_->cell(static_cast<size_t>(embedding_));
    vector_.clear();
    if (!cell.is_null) vector_.assign(cell.list.begin(), cell.list.end());
    record.embedding = vector_;
  }
  return record;
}

// Passes over the rest of a row group with a damaged page; row groups are independent.
absl::StatusOr<Record> ParquetRecords::LeaveGroup(const absl::Status& error) {
  ASSIGN_OR_RETURN(Record damage, Damage(reader_->row(), error));
  if (!absl::IsDataLoss(error)) return damage;
  absl::StrAppend(&damage.detail,
                  "; rows of the row group that are left out: ", reader_->SkipDamagedGroup());
  damage.is_last = false;
  return damage;
}

bool ParquetRecords::MayKeepGroup(const ParquetRowGroup& group) const {
  if (settings_.filter == nullptr) return true;
  std::vector<FieldRange> ranges;
  for (const size_t number : filter_columns_) {
    const size_t column = reader_->selected_index(number);
    ranges.push_back(RangeOf(reader_->columns()[column], group.chunks[column], group.num_rows));
  }
  return settings_.filter->MayKeep(ranges);
}

bool ParquetRecords::KeepsRow() {
  if (settings_.filter == nullptr) return true;
  values_.clear();
  for (const size_t number : filter_columns_) {
    values_.push_back(ValueOf(reader_->selected(number), reader_->cell(number)));
  }
  return settings_.filter->Keeps(values_);
}

std::optional<std::string> ParquetRecords::Label(int column) const {
  if (column < 0) return std::nullopt;
  const auto i = static_cast<size_t>(column);
  const ParquetCell& cell = reader_->cell(i);
  if (cell.is_null) return std::nullopt;
  const ParquetColumn& type = reader_->selected(i);
  if (type.type == ParquetType::kBoolean) return cell.integer != 0 ? "true" : "false";
  if (type.type == ParquetType::kByteArray) {
    if (cell.bytes.empty() || !IsValidUtf8(cell.bytes)) return std::nullopt;
    return std::string(cell.bytes);
  }
  return type.is_unsigned ? absl::StrCat(static_cast<uint64_t>(cell.integer))
                          : absl::StrCat(cell.integer);
}

}  // namespace braid
