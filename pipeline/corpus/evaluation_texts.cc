#include "pipeline/corpus/evaluation_texts.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/file_error.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "formats/parquet/parquet_reader.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/corpus/record_reader.h"
#include "pipeline/corpus/text_source.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxEvaluationBytes = int64_t{1} << 30;

// Receives the events of a JSON parser and collects the strings. A handler needs no stack, so that
// nesting of any depth is harmless.
class StringCollector final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& value) override {
    strings.push_back(std::move(value));
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

  std::vector<std::string> strings;
};

// Returns the strings of a JSON object or array; nullopt for other text.
std::optional<std::vector<std::string>> JsonStrings(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == text.npos || (text[start] != '{' && text[start] != '[')) return std::nullopt;
  StringCollector collector;
  if (!nlohmann::json::sax_parse(text, &collector)) return std::nullopt;
  return std::move(collector.strings);
}

// Returns the end of the record that starts at `begin`: the next line end outside of quotes.
size_t RecordEnd(std::string_view text, size_t begin, bool quoted_cells) {
  bool quoted = false;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '"' && quoted_cells) quoted = !quoted;
    if (text[i] == '\n' && !quoted) return i;
  }
  return text.size();
}

// Returns a record with a space for every separator of cells: commas outside of quotes, or tabs.
std::string Cells(std::string_view record, bool csv) {
  std::string cells(record);
  bool quoted = false;
  for (char& c : cells) {
    if (c == '"' && csv) quoted = !quoted;
    if (c == '\t' || (c == ',' && csv && !quoted)) c = ' ';
  }
  return cells;
}

class TextCollector {
 public:
  TextCollector(uint32_t file, std::vector<EvaluationText>* texts) : file_(file), texts_(texts) {}

  // INVALID_ARGUMENT for a JSON file with another record: its text with all escapes would match
  // nothing.
  absl::Status Collect(const fs::path& path, std::string_view text) {
    if (auto strings = JsonStrings(text)) {
      AddAll(*std::move(strings), 0);
      return absl::OkStatus();
    }
    const fs::path name = path.filename();
    const fs::path plain = CompressionOf(name).empty() ? name : name.stem();
    const std::string extension = absl::AsciiStrToLower(plain.extension().string());
    const bool csv = extension == ".csv";
    const bool json = extension == ".json" || extension == ".jsonl" || extension == ".ndjson";
    const std::string_view first =
        text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!csv && !json && extension != ".tsv" && !JsonStrings(first.substr(0, first.find('\n')))) {
      Add(std::string(text), 0);
      return absl::OkStatus();
    }
    int64_t line = 1;
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = RecordEnd(text, begin, csv);
      const std::string_view record = text.substr(begin, end - begin);
      if (auto strings = JsonStrings(record)) {
        AddAll(*std::move(strings), line);
      } else if (json && record.find_first_not_of(" \t\r") != record.npos) {
        return absl::InvalidArgumentError(absl::StrCat(
            "decontaminate.paths: ", path.string(), ":", line,
            ": got text that is not JSON, expected an object or array on each line or one in the "
            "file; NaN, comments and half surrogate pairs are not JSON"));
      } else {
        Add(Cells(record, csv), line);
      }
      line += std::ranges::count(record, '\n') + 1;
    }
    return absl::OkStatus();
  }

 private:
  void Add(std::string text, int64_t line) { texts_->push_back({std::move(text), file_, line}); }
  void AddAll(std::vector<std::string> strings, int64_t line) {
    for (std::string& text : strings) Add(std::move(text), line);
  }

  const uint32_t file_;
  std::vector<EvaluationText>* const texts_;
};

absl::Status TooLarge(const fs::path& path) {
  return absl::InvalidArgumentError(absl::StrCat("decontaminate.paths: ", path.string(),
                                                 ": got more than ", kMaxEvaluationBytes,
                                                 " bytes of evaluation data with the files before "
                                                 "it, expected at most that; use fewer files"));
}

bool HoldsText(const ParquetColumn& column) {
  return column.type == ParquetType::kByteArray && !column.is_decimal;
}

// Adds the strings of every text column, row by row. Text in lists cannot be read, and a file
// without its text would seem to match nothing.
absl::Status AddParquetTexts(const fs::path& path, const std::string& stored, int64_t most_bytes,
                             uint32_t file, std::vector<EvaluationText>* texts) {
  const ParquetBytes bytes = [&stored](int64_t offset, int64_t size) {
    return stored.substr(static_cast<size_t>(offset), static_cast<size_t>(size));
  };
  ASSIGN_OR_RETURN(ParquetReader reader, ParquetReader::FromBytes(bytes, std::ssize(stored), path));
  std::vector<std::string> names;
  for (const ParquetColumn& column : reader.columns()) {
    if (!HoldsText(column)) continue;
    if (column.max_repetition_level > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "decontaminate.paths: ", path.string(), ": got lists of text in column \"", column.name,
          "\", expected text outside of lists; convert the file to JSON lines"));
    }
    names.push_back(column.name);
  }
  if (names.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("decontaminate.paths: ", path.string(),
                     ": got no column of text, expected at least one; leave the file out"));
  }
  RETURN_IF_ERROR(reader.Select(names));
  // A row counts as a byte, too: pages of nulls have millions of rows in a few bytes.
  int64_t expanded = 0;
  while (reader.row() < reader.num_rows()) {
    RETURN_IF_ERROR(reader.Next());
    ++expanded;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string_view text = reader.cell(i).bytes;
      if (reader.cell(i).is_null || !IsValidUtf8(text)) continue;
      expanded += std::ssize(text);
      texts->push_back({std::string(text), file, reader.row()});
    }
    if (expanded > most_bytes) return TooLarge(path);
  }
  return absl::OkStatus();
}

// Refuses files of an indexed dataset, which hold tokens instead of text.
absl::Status CheckNotTokens(const fs::path& path) {
  const std::string extension = absl::AsciiStrToLower(path.extension().string());
  if (extension != ".bin" && extension != ".idx") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("decontaminate.paths: ", path.string(), ": got the tokens of a ", extension,
                   " file, expected text, JSON or Parquet; name the text that it was made of"));
}

// Returns what a decompressed file is if it is not text that can be compared; "" otherwise.
std::string_view KindOfBytes(std::string_view bytes) {
  constexpr size_t kNulProbeBytes = 8192;
  if (HasWideByteOrderMark(bytes)) return "UTF-16 or UTF-32 text";
  if (bytes.starts_with("\xFD\x37zXZ")) return "an xz file";
  if (bytes.size() > 4 && bytes.starts_with("BZh") && bytes.substr(4).starts_with("1AY&SY"))
    return "a bzip2 file";
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06")) return "a zip archive";
  return bytes.substr(0, kNulProbeBytes).find('\0') != bytes.npos ? "a file with NUL bytes" : "";
}

// A file that is not read as the text it holds would seem to match nothing.
absl::Status CheckIsText(const fs::path& path, std::string_view bytes) {
  const std::string kind(KindOfBytes(bytes));
  if (kind.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("decontaminate.paths: ", path.string(), ": got ", kind,
                   ", expected UTF-8 text, JSON or Parquet (plain, .gz or .zst)"));
}

// Entries that cannot be read might hold evaluation text; only hidden ones are left out.
absl::Status CheckSkipped(const CorpusFiles& found) {
  for (const SkippedEntry& entry : found.skipped) {
    if (entry.reason == "hidden") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("decontaminate.paths: ", entry.path.string(),
                     ": got an entry that is not read (", entry.reason,
                     "), expected readable files and directories; make it readable, name what it "
                     "links to, or remove it"));
  }
  return absl::OkStatus();
}

// The settings of ingest do not apply here, and a retry would not help.
absl::Status ExpandsTooFar(const fs::path& path) {
  return absl::InvalidArgumentError(absl::StrCat("decontaminate.paths: ", path.string(),
                                                 " expands too far; decompress it first"));
}

// Adds a Parquet file with the bytes `stored`, of at most `left`.
absl::Status AddParquetFile(const fs::path& path, const std::string& stored, int64_t left,
                            int64_t* bytes, EvaluationTexts* texts) {
  const auto file = static_cast<uint32_t>(texts->files.size());
  const size_t num_before = texts->texts.size();
  const absl::Status added = AddParquetTexts(path, stored, left, file, &texts->texts);
  // A page beyond the limits of the reader.
  if (absl::IsResourceExhausted(added)) return ExpandsTooFar(path);
  RETURN_IF_ERROR(added);
  int64_t expanded = 0;
  for (size_t i = num_before; i < texts->texts.size(); ++i) {
    expanded += std::ssize(texts->texts[i].text);
  }
  *bytes += std::max(std::ssize(stored), expanded);
  if (*bytes > kMaxEvaluationBytes) return TooLarge(path);
  texts->files.push_back({path.string(), std::ssize(stored), Crc32c(stored)});
  return absl::OkStatus();
}

absl::Status AddEvaluationFile(const fs::path& path, int64_t* bytes, EvaluationTexts* texts) {
  RETURN_IF_ERROR(CheckNotTokens(path));
  const int64_t left = kMaxEvaluationBytes - *bytes;
  ASSIGN_OR_RETURN(const std::string stored, ClientRoots().Read(path, static_cast<size_t>(left)));
  if (absl::AsciiStrToLower(path.extension().string()) == ".parquet") {
    return AddParquetFile(path, stored, left, bytes, texts);
  }
  const absl::StatusOr<std::optional<std::string>> read = ReadText(path, left);
  if (IsDecompressionBomb(read.status())) return ExpandsTooFar(path);
  RETURN_IF_ERROR(read.status());
  if (!read->has_value()) return TooLarge(path);
  const std::string& text = **read;
  RETURN_IF_ERROR(CheckIsText(path, text));
  *bytes += std::max(std::ssize(stored), std::ssize(text));
  if (*bytes > kMaxEvaluationBytes) return TooLarge(path);
  const auto file = static_cast<uint32_t>(texts->files.size());
  texts->files.push_back({path.string(), std::ssize(stored), Crc32c(stored)});
  return TextCollector(file, &texts->texts).Collect(path, text);
}

// Damaged and encrypted files are bad input; an error of the file system is not.
absl::Status AsBadInput(const absl::Status& status) {
  const bool bad = absl::IsDataLoss(status) || absl::IsUnimplemented(status);
  if (!bad || IsSystemError(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat("decontaminate.paths: ", status.message()));
}

// Calls `add` for each of the files, in order.
absl::Status ForEachEvaluationFile(std::span<const std::string> paths,
                                   const std::function<absl::Status(const fs::path&)>& add) {
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      RETURN_IF_ERROR(AsBadInput(add(path)));
      continue;
    }
    ASSIGN_OR_RETURN(const CorpusFiles found, FindCorpusFiles(std::span(&path, 1)));
    RETURN_IF_ERROR(CheckSkipped(found));
    for (const CorpusFile& file : found.files) RETURN_IF_ERROR(AsBadInput(add(file.path)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EvaluationTexts::PlaceOf(uint32_t text) const {
  const std::string& path = files[texts[text].file].path;
  return texts[text].line == 0 ? path : absl::StrCat(path, ":", texts[text].line);
}

absl::StatusOr<EvaluationTexts> ReadEvaluationTexts(std::span<const std::string> paths) {
  EvaluationTexts texts;
  int64_t bytes = 0;
  RETURN_IF_ERROR(ForEachEvaluationFile(
      paths, [&](const fs::path& path) { return AddEvaluationFile(path, &bytes, &texts); }));
  return texts;
}

absl::Status CheckEvaluationTexts(std::span<const std::string> paths) {
  int64_t bytes = 0;
  return ForEachEvaluationFile(paths, [&](const fs::path& path) {
    EvaluationTexts texts;
    return AddEvaluationFile(path, &bytes, &texts);
  });
}

}  // namespace braid
