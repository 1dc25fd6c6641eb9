// Provenance tables: which tokens of which document are in which training instance, stored for
// lookup in both directions. docs/formats/provenance.md describes the format.
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

// Writes the tables of a packed dataset into `directory`, which must exist, and returns the files
// written, with names relative to it.
//
// `spans`: the spans of all instances, numbered by stored position, in any order. `document_ids`:
// the id of every document of the corpus, including documents that are in no instance. Requires:
// the document of each span < document_ids.size(). Errors: those of the file system.
absl::StatusOr<std::vector<FileSummary>> WriteProvenance(const std::filesystem::path& directory,
                                                         std::span<const ProvenanceSpan> spans,
                                                         std::span<const std::string> document_ids);

// Read access through a memory map. Lookups are binary searches. Thread-safe.
//
//   ASSIGN_OR_RETURN(Provenance provenance, Provenance::Open(dataset / "provenance"));
//   for (const ProvenanceSpan& span : provenance.Instance(12))
//     std::cout << provenance.document_id(span.document) << " from token " << span.document_offset;
class Provenance {
 public:
  // Maps and validates the tables. Errors: NOT_FOUND for a missing file; DATA_LOSS, which names the
  // file, when the tables are inconsistent.
  static absl::StatusOr<Provenance> Open(const std::filesystem::path& directory);

  // Returns the spans of a stored instance by instance_offset; empty for an unknown instance.
  std::vector<ProvenanceSpan> Instance(uint32_t instance) const;

  // Returns the spans of a document by document_offset; empty when it is in no instance.
  std::vector<ProvenanceSpan> Document(uint32_t document) const;

  // Returns the number of the document with this id, the lowest if several have it.
  std::optional<uint32_t> FindDocument(std::string_view id) const;

  // Returns up to `distance` ids on either side of the position of `id` among all ids sorted as
  // bytes, for suggestions.
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
  int64_t PlaceOfId(std::string_view id) const;  // in by_id_, of the first id >= `id`

  NpyArray<int64_t> spans_;        // [num_spans, 5] sorted by (instance, instance_offset)
  NpyArray<int64_t> by_document_;  // [num_spans] rows of spans_ by (document, document_offset)
  NpyArray<int64_t> id_offsets_;   // [num_documents + 1] into ids_
  NpyArray<uint32_t> by_id_;       // [num_documents] documents by (id, number)
  MappedFile ids_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_PROVENANCE_H_
