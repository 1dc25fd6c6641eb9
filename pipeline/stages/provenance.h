// Which document and which of its tokens are in which training instance, on
// disk and both ways. The format is described in docs/formats/provenance.md.
#ifndef BRAID_PIPELINE_STAGES_PROVENANCE_H_
#define BRAID_PIPELINE_STAGES_PROVENANCE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "formats/npy.h"
#include "pipeline/ordering/packing.h"

namespace braid {

// Writes the tables of a packed dataset into `directory`, which must exist.
//
// `spans`: of all instances, numbered by stored position, in any order.
// `document_ids`: the corpus's id of every document number, also of documents
// that are in no instance. Requires: each span's document < document_ids.size().
// Returns the files written, names relative to `directory`.
// Errors: those of the file system.
absl::StatusOr<std::vector<FileSummary>> WriteProvenance(const std::filesystem::path& directory,
                                                         std::span<const ProvenanceSpan> spans,
                                                         std::span<const std::string> document_ids);

// Read access by memory map; lookups are binary searches.
//
//   ASSIGN_OR_RETURN(Provenance provenance, Provenance::Open(dataset / "provenance"));
//   for (const ProvenanceSpan& span : provenance.Instance(12))
//     std::cout << provenance.document_id(span.document) << " from token " << span.document_offset;
//
// Thread-safe once opened.
class Provenance {
 public:
  // Errors: NOT_FOUND for a missing file; DATA_LOSS when the tables do not fit
  // together, with the file's name.
  static absl::StatusOr<Provenance> Open(const std::filesystem::path& directory);

  // Spans of one stored instance by instance_offset; empty when there is none.
  std::vector<ProvenanceSpan> Instance(uint32_t instance) const;

  // Spans of one document by document_offset; empty when it is in no instance.
  std::vector<ProvenanceSpan> Document(uint32_t document) const;

  // Number of the document with this id. Of equal ids, the lowest number.
  std::optional<uint32_t> FindDocument(std::string_view id) const;

  // Up to `distance` ids on either side of where `id` is or would be among all
  // ids, sorted as bytes: for suggestions.
  std::vector<std::string> IdsAround(std::string_view id, int64_t distance) const;

  // Requires: document < num_documents().
  std::string_view document_id(uint32_t document) const;

  int64_t num_documents() const;
  int64_t num_instances() const;  // 1 + the highest instance
  int64_t num_spans() const;

 private:
  Provenance(NpyArray<int64_t> spans, NpyArray<int64_t> by_document, NpyArray<int64_t> id_offsets,
             NpyArray<uint32_t> by_id, MappedFile ids);
  absl::Status Validate(const std::filesystem::path& directory) const;
  ProvenanceSpan span(int64_t row) const;
  int64_t PlaceOfId(std::string_view id) const;  // in by_id_, of the first not below it

  NpyArray<int64_t> spans_;        // [num_spans, 5] sorted by (instance, instance_offset)
  NpyArray<int64_t> by_document_;  // [num_spans] rows of spans_ by (document, document_offset)
  NpyArray<int64_t> id_offsets_;   // [num_documents + 1] into ids_
  NpyArray<uint32_t> by_id_;       // [num_documents] documents by (id, number)
  MappedFile ids_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_PROVENANCE_H_
