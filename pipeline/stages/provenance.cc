#include "pipeline/stages/provenance.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr char kSpansFile[] = "spans.npy";
constexpr char kByDocumentFile[] = "spans_by_document.npy";
constexpr char kIdsFile[] = "ids.txt";
constexpr char kIdOffsetsFile[] = "id_offsets.npy";
constexpr char kByIdFile[] = "documents_by_id.npy";

// Columns of spans.npy.
enum Column { kInstance, kInstanceOffset, kDocument, kDocumentOffset, kLength, kNumColumns };

std::vector<ProvenanceSpan> ByInstance(std::span<const ProvenanceSpan> spans) {
  std::vector<ProvenanceSpan> sorted(spans.begin(), spans.end());
  std::sort(sorted.begin(), sorted.end(), [](const ProvenanceSpan& a, const ProvenanceSpan& b) {
    return std::tie(a.instance, a.instance_offset) < std::tie(b.instance, b.instance_offset);
  });
  return sorted;
}

// Returns the rows of `spans` sorted by (document, document_offset).
std::vector<int64_t> RowsByDocument(std::span<const ProvenanceSpan> spans) {
  std::vector<int64_t> rows(spans.size());
  std::iota(rows.begin(), rows.end(), int64_t{0});
  std::sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) {
    return std::tie(spans[a].document, spans[a].document_offset) <
           std::tie(spans[b].document, spans[b].document_offset);
  });
  return rows;
}

std::vector<uint32_t> DocumentsById(std::span<const std::string> ids) {
  std::vector<uint32_t> documents(ids.size());
  std::iota(documents.begin(), documents.end(), 0u);
  std::sort(documents.begin(), documents.end(),
            [&](uint32_t a, uint32_t b) { return std::tie(ids[a], a) < std::tie(ids[b], b); });
  return documents;
}

template <class T>
absl::StatusOr<FileSummary> WriteColumn(const std::filesystem::path& path,
                                        std::span<const T> values) {
  ASSIGN_OR_RETURN(NpyWriter<T> writer, NpyWriter<T>::Create(path, {}));
  RETURN_IF_ERROR(writer.AppendRows(values));
  return writer.Commit();
}

absl::StatusOr<FileSummary> WriteSpans(const std::filesystem::path& path,
                                       std::span<const ProvenanceSpan> spans) {
  ASSIGN_OR_RETURN(auto writer, NpyWriter<int64_t>::Create(path, {kNumColumns}));
  for (const ProvenanceSpan& span : spans) {
    const std::array<int64_t, kNumColumns> row = {span.instance, span.instance_offset,
                                                  span.document, span.document_offset, span.length};
    RETURN_IF_ERROR(writer.AppendRows(row));
  }
  return writer.Commit();
}

// Writes one id per line, so that the file can be read and searched as text. Readers use the
// offsets, those of the first byte of each id and of the end of the file, because an id may contain
// a newline.
absl::StatusOr<FileSummary> WriteIds(const std::filesystem::path& path,
                                     std::span<const std::string> ids,
                                     std::vector<int64_t>* offsets) {
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  offsets->assign(1, 0);
  for (const std::string& id : ids) {
    RETURN_IF_ERROR(file->Append(id));
    RETURN_IF_ERROR(file->Append("\n"));
    offsets->push_back(offsets->back() + static_cast<int64_t>(id.size()) + 1);
  }
  return file->Commit();
}

// Returns the first row in [0, n) for which less(row) is false, or n.
template <class Less>
int64_t LowerBound(int64_t n, const Less& less) {
  int64_t begin = 0;
  while (n > 0) {
    const int64_t half = n / 2;
    if (less(begin + half)) {
      begin += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return begin;
}

absl::Status CheckCount(const std::filesystem::path& path, std::string what, int64_t got,
                        int64_t expected) {
  if (got == expected) return absl::OkStatus();
  return CorruptFile(
      path, {std::move(what), 0, std::to_string(got), std::to_string(expected),
             "The files of this directory are not from one dataset; pack the corpus again"});
}

absl::Status CheckRange(const std::filesystem::path& path, std::string what, int64_t row,
                        int64_t got, int64_t max) {
  if (got >= 0 && got <= max) return absl::OkStatus();
  what.append(" in row ").append(std::to_string(row));
  return CorruptFile(path, {std::move(what), 0, std::to_string(got), "0 to " + std::to_string(max),
                            "Pack the corpus again"});
}

}  // namespace

absl::StatusOr<std::vector<FileSummary>> WriteProvenance(
    const std::filesystem::path& directory, std::span<const ProvenanceSpan> spans,
    std::span<const std::string> document_ids) {
  for (const ProvenanceSpan& span : spans) {
    BRAID_CHECK(span.document < document_ids.size()) << span.document << " has no id";
  }
  const std::vector<ProvenanceSpan> sorted = ByInstance(spans);
  const std::vector<int64_t> by_document = RowsByDocument(sorted);
  const std::vector<uint32_t> by_id = DocumentsById(document_ids);
  std::vector<int64_t> id_offsets;
  std::vector<FileSummary> files(5);
  ASSIGN_OR_RETURN(files[0], WriteSpans(directory / kSpansFile, sorted));
  ASSIGN_OR_RETURN(files[1], WriteColumn<int64_t>(directory / kByDocumentFile, by_document));
  ASSIGN_OR_RETURN(files[2], WriteIds(directory / kIdsFile, document_ids, &id_offsets));
  ASSIGN_OR_RETURN(files[3], WriteColumn<int64_t>(directory / kIdOffsetsFile, id_offsets));
  ASSIGN_OR_RETURN(files[4], WriteColumn<uint32_t>(directory / kByIdFile, by_id));
  return files;
}

Provenance::Provenance(NpyArray<int64_t> spans, NpyArray<int64_t> by_document,
                       NpyArray<int64_t> id_offsets, NpyArray<uint32_t> by_id, MappedFile ids)
    : spans_(std::move(spans)),
      by_document_(std::move(by_document)),
      id_offsets_(std::move(id_offsets)),
      by_id_(std::move(by_id)),
      ids_(std::move(ids)) {}

absl::StatusOr<Provenance> Provenance::Open(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(auto spans, NpyArray<int64_t>::Open(directory / kSpansFile));
  ASSIGN_OR_RETURN(auto by_document, NpyArray<int64_t>::Open(directory / kByDocumentFile));
  ASSIGN_OR_RETURN(auto id_offsets, NpyArray<int64_t>::Open(directory / kIdOffsetsFile));
  ASSIGN_OR_RETURN(auto by_id, NpyArray<uint32_t>::Open(directory / kByIdFile));
  ASSIGN_OR_RETURN(MappedFile ids, MappedFile::Open(directory / kIdsFile));
  Provenance provenance(std::move(spans), std::move(by_document), std::move(id_offsets),
                        std::move(by_id), std::move(ids));
  RETURN_IF_ERROR(provenance.Validate(directory));
  return provenance;
}

absl::Status Provenance::Validate(const std::filesystem::path& directory) const {
  RETURN_IF_ERROR(
      CheckCount(directory / kSpansFile, "number of columns", spans_.row_size(), kNumColumns));
  RETURN_IF_ERROR(
      CheckCount(directory / kByDocumentFile, "number of columns", by_document_.row_size(), 1));
  RETURN_IF_ERROR(
      CheckCount(directory / kIdOffsetsFile, "number of columns", id_offsets_.row_size(), 1));
  RETURN_IF_ERROR(CheckCount(directory / kByIdFile, "number of columns", by_id_.row_size(), 1));
  RETURN_IF_ERROR(CheckCount(directory / kByDocumentFile, "number of rows", by_document_.num_rows(),
                             num_spans()));
  RETURN_IF_ERROR(CheckCount(directory / kIdOffsetsFile, "number of rows", id_offsets_.num_rows(),
                             num_documents() + 1));
  const auto num_bytes = static_cast<int64_t>(ids_.bytes().size());
  RETURN_IF_ERROR(
      CheckCount(directory / kIdsFile, "length", num_bytes, id_offsets_.values().back()));
  constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max();
  for (int64_t row = 0; row < num_spans(); ++row) {
    const std::span<const int64_t> cells = spans_.row(row);
    const auto path = directory / kSpansFile;
    RETURN_IF_ERROR(CheckRange(path, "instance", row, cells[kInstance], 2 * kMax32 + 1));
    RETURN_IF_ERROR(CheckRange(path, "instance offset", row, cells[kInstanceOffset], kMax32));
    RETURN_IF_ERROR(CheckRange(path, "document", row, cells[kDocument], num_documents() - 1));
    RETURN_IF_ERROR(CheckRange(path, "length", row, cells[kLength], kMax32));
    RETURN_IF_ERROR(CheckRange(directory / kByDocumentFile, "span", row, by_document_.values()[row],
                               num_spans() - 1));
  }
  for (int64_t row = 0; row < num_documents(); ++row) {
    const std::span<const int64_t> offsets = id_offsets_.values().subspan(row, 2);
    RETURN_IF_ERROR(CheckRange(directory / kIdOffsetsFile, "offset", row, offsets[0],
                               std::clamp<int64_t>(offsets[1], 0, num_bytes) - 1));
    RETURN_IF_ERROR(CheckRange(directory / kByIdFile, "document", row, by_id_.values()[row],
                               num_documents() - 1));
  }
  return absl::OkStatus();
}

std::vector<ProvenanceSpan> Provenance::Instance(uint32_t instance) const {
  std::vector<ProvenanceSpan> spans;
  const auto before = [&](int64_t row) { return span(row).instance < instance; };
  for (int64_t row = LowerBound(num_spans(), before); row < num_spans(); ++row) {
    if (span(row).instance != instance) break;
    spans.push_back(span(row));
  }
  return spans;
}

std::vector<ProvenanceSpan> Provenance::Document(uint32_t document) const {
  std::vector<ProvenanceSpan> spans;
  const std::span<const int64_t> rows = by_document_.values();
  const auto before = [&](int64_t i) { return span(rows[i]).document < document; };
  for (int64_t i = LowerBound(num_spans(), before); i < num_spans(); ++i) {
    if (span(rows[i]).document != document) break;
    spans.push_back(span(rows[i]));
  }
  return spans;
}

int64_t Provenance::PlaceOfId(std::string_view id) const {
  const std::span<const uint32_t> documents = by_id_.values();
  return LowerBound(num_documents(), [&](int64_t i) { return document_id(documents[i]) < id; });
}

std::optional<uint32_t> Provenance::FindDocument(std::string_view id) const {
  const int64_t i = PlaceOfId(id);
  if (i == num_documents() || document_id(by_id_.values()[i]) != id) return std::nullopt;
  return by_id_.values()[i];
}

std::vector<std::string> Provenance::IdsAround(std::string_view id, int64_t distance) const {
  const int64_t place = PlaceOfId(id);
  const int64_t end = std::min(num_documents(), place + distance);
  std::vector<std::string> ids;
  for (int64_t i = std::max<int64_t>(0, place - distance); i < end; ++i) {
    ids.emplace_back(document_id(by_id_.values()[i]));
  }
  return ids;
}

std::string_view Provenance::document_id(uint32_t document) const {
  BRAID_CHECK(document < num_documents()) << document << " of " << num_documents();
  const int64_t begin = id_offsets_.values()[document];
  const int64_t end = id_offsets_.values()[document + 1] - 1;  // without the newline
  return ids_.bytes().substr(begin, end - begin);
}

int64_t Provenance::num_documents() const { return by_id_.num_rows(); }
int64_t Provenance::num_spans() const { return spans_.num_rows(); }
int64_t Provenance::num_instances() const {
  return num_spans() == 0 ? 0 : int64_t{span(num_spans() - 1).instance} + 1;
}

ProvenanceSpan Provenance::span(int64_t row) const {
  const std::span<const int64_t> cells = spans_.row(row);
  return {static_cast<uint32_t>(cells[kDocument]), cells[kDocumentOffset],
          static_cast<uint32_t>(cells[kInstance]), static_cast<int32_t>(cells[kInstanceOffset]),
          static_cast<int32_t>(cells[kLength])};
}

}  // namespace braid
