#include "formats/parquet/column_reader.h"

#include <isa-l.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/parquet/page_codec.h"

namespace braid {
namespace {

// Limits of one page, against lengths that lie: writers make pages of about a megabyte.
constexpr int64_t kMostPageBytes = int64_t{1} << 30;
constexpr int64_t kMostPageValues = int64_t{1} << 26;
constexpr int64_t kHeaderBytes = int64_t{16} << 10;
constexpr int64_t kMostHeaderBytes = int64_t{16} << 20;

bool IsNumber(ParquetType type) {
  return type == ParquetType::kFloat || type == ParquetType::kDouble;
}

bool IsInteger(ParquetType type) {
  return type == ParquetType::kBoolean || type == ParquetType::kInt32 ||
         type == ParquetType::kInt64;
}

}  // namespace

ParquetColumnReader::ParquetColumnReader(const ParquetColumn& column, const ParquetChunk& chunk,
                                         const ParquetBytes& bytes)
    : column_(column),
      codec_(chunk.codec),
      bytes_(&bytes),
      next_page_(chunk.offset),
      end_(chunk.offset + chunk.size),
      values_left_(chunk.num_values) {}

absl::Status ParquetColumnReader::Next(ParquetCell* cell) {
  while (next_entry_ == num_entries_) RETURN_IF_ERROR(NextPage());
  if (column_.max_repetition_level > 0) return NextList(cell);
  Take(cell);
  return absl::OkStatus();
}

// Moves the next entry of the page to `cell`.
void ParquetColumnReader::Take(ParquetCell* cell) {
  cell->is_null = IsNull(next_entry_++);
  if (cell->is_null) return;
  const size_t i = next_value_++;
  if (IsInteger(column_.type)) {
    cell->integer = values_.integers[i];
  } else if (IsNumber(column_.type)) {
    cell->number = values_.numbers[i];
  } else {
    cell->bytes = values_.strings[i];
  }
}

// A row begins with repetition level 0 and has all entries up to the next 0, which may stand on the
// following pages.
absl::Status ParquetColumnReader::NextList(ParquetCell* cell) {
  cell->list.clear();
  cell->is_null = definitions_[next_entry_] < static_cast<uint32_t>(column_.list_level);
  if (repetitions_[next_entry_] != 0) return BadPage("a row does not start where it should");
  while (true) {
    const bool has_value = !IsNull(next_entry_);
    const bool is_element = definitions_[next_entry_] > static_cast<uint32_t>(column_.list_level);
    ParquetCell element;
    Take(&element);
    if (is_element && !has_value) {
      cell->list.push_back(std::numeric_limits<double>::quiet_NaN());
    } else if (has_value) {
      cell->list.push_back(IsInteger(column_.type) ? static_cast<double>(element.integer)
                                                   : element.number);
    }
    while (next_entry_ == num_entries_ && values_left_ > 0) RETURN_IF_ERROR(NextPage());
    if (next_entry_ == num_entries_ || repetitions_[next_entry_] == 0) return absl::OkStatus();
  }
}

absl::Status ParquetColumnReader::Skip(int64_t num_rows) {
  ParquetCell cell;
  for (int64_t i = 0; i < num_rows; ++i) RETURN_IF_ERROR(Next(&cell));
  return absl::OkStatus();
}

// Reads the header of the next page and some bytes after it. Headers have tens of bytes, or as many
// as the statistics in them.
absl::StatusOr<ParquetPage> ParquetColumnReader::ReadHeader(std::string* bytes,
                                                            size_t* header_size) {
  for (int64_t most = kHeaderBytes;; most *= 16) {
    const int64_t size = std::min(most, end_ - next_page_);
    ASSIGN_OR_RETURN(*bytes, (*bytes_)(next_page_, size));
    absl::StatusOr<ParquetPage> page = ParseParquetPage(*bytes, header_size);
    if (page.ok() || size < most || most > kMostHeaderBytes) return page;
  }
}

absl::Status ParquetColumnReader::NextPage() {
  if (values_left_ <= 0) return BadPage("the column has fewer rows than its row group");
  size_t header_size = 0;
  std::string bytes;
  ASSIGN_OR_RETURN(const ParquetPage page, ReadHeader(&bytes, &header_size));
  next_page_ += static_cast<int64_t>(header_size);
  if (page.compressed_size > end_ - next_page_) return BadPage("it is longer than its column");
  const int64_t page_size = std::max(page.compressed_size, page.uncompressed_size);
  if (page_size > kMostPageBytes || page.num_values > kMostPageValues) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a page of ", page_size, " bytes and ", page.num_values,
                     " values is beyond the limits of ", kMostPageBytes, " and ", kMostPageValues));
  }
  std::string_view body(bytes);
  body.remove_prefix(header_size);
  if (page.compressed_size > static_cast<int64_t>(body.size())) {
    ASSIGN_OR_RETURN(bytes, (*bytes_)(next_page_, page.compressed_size));
    body = bytes;
  }
  body = body.substr(0, static_cast<size_t>(page.compressed_size));
  next_page_ += page.compressed_size;
  if (page.crc.has_value() &&
      *page.crc !=
          crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(body.data()), body.size())) {
    return BadPage("its checksum differs");
  }
  if (page.kind == ParquetPage::Kind::kDictionary) return ReadDictionary(page, body);
  if (page.kind == ParquetPage::Kind::kIndex) return absl::OkStatus();
  if (page.num_values > values_left_) return BadPage("it has more values than its column");
  values_left_ -= page.num_values;
  num_entries_ = static_cast<size_t>(page.num_values);
  next_entry_ = next_value_ = 0;
  definitions_.clear();
  repetitions_.clear();
  values_.clear();
  page_bytes_.clear();
  // A few bytes of levels can stand for any number of elements of lists.
  const bool lists = column_.max_repetition_level > 0;
  absl::Status status = CountExpansion(lists ? page.num_values * int64_t{sizeof(float)} : 0);
  if (status.ok()) {
    status =
        page.kind == ParquetPage::Kind::kData ? ReadPageV1(page, body) : ReadPageV2(page, body);
  }
  if (!status.ok()) next_entry_ = num_entries_ = 0;
  return status;
}

absl::Status ParquetColumnReader::CountExpansion(int64_t bytes) {
  expanded_bytes_ += bytes;
  if (expanded_bytes_ <= max_expanded_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("its pages expand to more than ", max_expanded_bytes_,
                   " bytes, expected at most that for the bytes that they have in the file"));
}

absl::Status ParquetColumnReader::ReadDictionary(const ParquetPage& page, std::string_view body) {
  if (has_dictionary_) return BadPage("a second dictionary");
  has_dictionary_ = true;
  RETURN_IF_ERROR(DecompressPage(codec_, body, static_cast<size_t>(page.uncompressed_size),
                                 &dictionary_bytes_));
  const EncodedValues encoded{dictionary_bytes_, ParquetEncoding::kPlain,
                              static_cast<size_t>(page.num_values)};
  return DecodeValues(encoded, column_, nullptr, &dictionary_);
}

absl::Status ParquetColumnReader::ReadLevels(std::string_view bytes, int16_t max_level,
                                             std::vector<uint32_t>* levels) {
  const auto most = static_cast<uint32_t>(max_level);
  RETURN_IF_ERROR(DecodeHybrid(bytes, std::bit_width(most), num_entries_, levels));
  const bool above = std::ranges::any_of(*levels, [&](uint32_t level) { return level > most; });
  return above ? BadPage("a level is above the schema's") : absl::OkStatus();
}

// Reads levels after their length; returns the rest of the page.
absl::StatusOr<std::string_view> ParquetColumnReader::LevelsOfV1(ParquetEncoding encoding,
                                                                 int16_t max_level,
                                                                 std::string_view body,
                                                                 std::vector<uint32_t>* levels) {
  if (max_level == 0) return body;
  if (encoding != ParquetEncoding::kRle) {
    return absl::UnimplementedError("levels in the deprecated encoding BIT_PACKED");
  }
  uint32_t size = 0;
  if (body.size() < 4) return BadPage("its levels are cut off");
  std::memcpy(&size, body.data(), 4);
  body.remove_prefix(4);
  if (size > body.size()) return BadPage("its levels are cut off");
  RETURN_IF_ERROR(ReadLevels(body.substr(0, size), max_level, levels));
  return body.substr(size);
}

absl::Status ParquetColumnReader::ReadPageV1(const ParquetPage& page, std::string_view body) {
  RETURN_IF_ERROR(
      DecompressPage(codec_, body, static_cast<size_t>(page.uncompressed_size), &page_bytes_));
  ASSIGN_OR_RETURN(std::string_view rest,
                   LevelsOfV1(page.repetition_encoding, column_.max_repetition_level, page_bytes_,
                              &repetitions_));
  ASSIGN_OR_RETURN(rest, LevelsOfV1(page.definition_encoding, column_.max_definition_level, rest,
                                    &definitions_));
  return ReadValues(rest, page.encoding);
}

absl::Status ParquetColumnReader::ReadPageV2(const ParquetPage& page, std::string_view body) {
  const int64_t levels = page.repetition_size + page.definition_size;
  if (levels > static_cast<int64_t>(body.size()) || levels > page.uncompressed_size) {
    return BadPage("its levels are cut off");
  }
  const auto repetition_size = static_cast<size_t>(page.repetition_size);
  const auto definition_size = static_cast<size_t>(page.definition_size);
  if (column_.max_repetition_level > 0) {
    RETURN_IF_ERROR(
        ReadLevels(body.substr(0, repetition_size), column_.max_repetition_level, &repetitions_));
  }
  if (column_.max_definition_level > 0) {
    RETURN_IF_ERROR(ReadLevels(body.substr(repetition_size, definition_size),
                               column_.max_definition_level, &definitions_));
  }
  const std::string_view values = body.substr(static_cast<size_t>(levels));
  const auto size = static_cast<size_t>(page.uncompressed_size - levels);
  // A page of nulls may have no compressed bytes at all.
  const bool plain = !page.is_compressed || (size == 0 && values.empty());
  RETURN_IF_ERROR(DecompressPage(plain ? ParquetCodec::kNone : codec_, values, size, &page_bytes_));
  return ReadValues(page_bytes_, page.encoding);
}

absl::Status ParquetColumnReader::ReadValues(std::string_view bytes, ParquetEncoding encoding) {
  size_t count = num_entries_;
  if (column_.max_definition_level > 0) {
    count = static_cast<size_t>(
        std::ranges::count(definitions_, static_cast<uint32_t>(column_.max_definition_level)));
  }
  const EncodedValues encoded{bytes, encoding, count,
                              std::min(kMostPageBytes, max_expanded_bytes_ - expanded_bytes_)};
  RETURN_IF_ERROR(
      DecodeValues(encoded, column_, has_dictionary_ ? &dictionary_ : nullptr, &values_));
  // A few bytes of indices into a dictionary can stand for any number of long values.
  int64_t text_bytes = 0;
  for (const std::string_view text : values_.strings) {
    text_bytes += static_cast<int64_t>(text.size());
  }
  return CountExpansion(text_bytes);
}

}  // namespace braid
