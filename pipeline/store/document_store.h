// The corpus after ingest: texts, ids and domains of all documents, numbered 0 .. n-1 in the order
// in which they were read. Written once, then read through a memory map.
//
//   texts.bin, text_offsets.npy   concatenated texts; text i is bytes [offsets[i], offsets[i+1])
//   ids.bin, id_offsets.npy       ids in the same layout
//   domains.npy, domains.json     for each document the index of its domain in the sorted list of
//                                 domain names
#ifndef BRAID_PIPELINE_STORE_DOCUMENT_STORE_H_
#define BRAID_PIPELINE_STORE_DOCUMENT_STORE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "formats/npy.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/resume_point.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Streams strings to one file and their offsets to another.
class StringColumnWriter {
 public:
  // Continues after the synced prefixes; starts from the beginning when `synced` is empty.
  static absl::StatusOr<StringColumnWriter> Resume(const std::filesystem::path& strings,
                                                   const std::filesystem::path& offsets,
                                                   const DurablePrefixes& synced);
  absl::Status Append(std::string_view value);
  // Makes the strings so far durable and records the lengths of both files in `synced`.
  absl::Status Sync(DurablePrefixes* synced);
  // Completes both files and adds them to the output of the stage.
  absl::Status Commit(StageWriter* stage);

  int64_t num_bytes() const { return strings_->size(); }

 private:
  StringColumnWriter(std::unique_ptr<AtomicFile> strings, NpyWriter<int64_t> offsets)
      : strings_(std::move(strings)), offsets_(std::move(offsets)) {}

  std::unique_ptr<AtomicFile> strings_;
  NpyWriter<int64_t> offsets_;
};

// Streams documents to the files of a document store. Memory: 4 bytes per document.
class DocumentStoreWriter {
 public:
  // Continues in the directory of the stage after the state that Sync() stored in `point`; starts
  // from the beginning when there is none.
  static absl::StatusOr<DocumentStoreWriter> Resume(const std::filesystem::path& directory,
                                                    const ResumePoint& point);

  // Appends the next document.
  absl::Status Add(std::string_view id, std::string_view text, std::string_view domain);
  // Makes the documents so far durable and records them in `point`. Uses point->state["domains"]
  // and the file domain_numbers, which is not part of the output.
  absl::Status Sync(ResumePoint* point);
  // Completes all files and adds them to the output of the stage. Sorts the domains by name.
  absl::Status Commit(StageWriter* stage);

  int64_t num_documents() const { return static_cast<int64_t>(domains_.size()); }
  int64_t num_text_bytes() const { return texts_.num_bytes(); }

 private:
  DocumentStoreWriter(StringColumnWriter texts, StringColumnWriter ids,
                      std::unique_ptr<AtomicFile> synced_domains)
      : texts_(std::move(texts)),
        ids_(std::move(ids)),
        synced_domains_(std::move(synced_domains)) {}
  absl::Status ReadDomains(const nlohmann::json& names);

  StringColumnWriter texts_;
  StringColumnWriter ids_;
  std::unique_ptr<AtomicFile> synced_domains_;
  std::map<std::string, int32_t, std::less<>> domain_numbers_;  // numbered by first appearance
  std::vector<int32_t> domains_;
};

// Read access through a memory map. Thread-safe. Views remain valid as long as the store.
class DocumentStore {
 public:
  // Maps and validates the files. Errors: NOT_FOUND for a missing file; DATA_LOSS, which names the
  // file, when the files are inconsistent.
  static absl::StatusOr<DocumentStore> Open(const std::filesystem::path& directory);

  int64_t size() const { return static_cast<int64_t>(domains_.values().size()); }
  int64_t num_text_bytes() const { return static_cast<int64_t>(texts_.bytes().size()); }
  // Requires, here and below: 0 <= i < size().
  std::string_view text(int64_t i) const;
  std::string_view id(int64_t i) const;
  int32_t domain(int64_t i) const { return domains_.values()[static_cast<size_t>(i)]; }

  // Returns the end of the longest run of documents from `begin` that has at most max_bytes of text
  // and max_documents documents, but at least one document. Requires: begin < size().
  int64_t ChunkEnd(int64_t begin, int64_t max_bytes, int64_t max_documents) const;
  // Returns the end of consecutive chunks of ChunkEnd, `chunk_documents` each and `max_documents`
  // in total. A chunk that has fewer, because of its bytes, is the last one. Where all chunks of
  // the store begin does not depend on `max_documents`. Requires: that is a multiple of
  // `chunk_documents`, and begin < size().
  int64_t ChunksEnd(int64_t begin, int64_t max_bytes, int64_t chunk_documents,
                    int64_t max_documents) const;
  // Returns the total length of the texts [begin, end).
  int64_t TextBytes(int64_t begin, int64_t end) const {
    return text_offsets_.values()[static_cast<size_t>(end)] -
           text_offsets_.values()[static_cast<size_t>(begin)];
  }
  // Returns the texts [begin, end).
  std::vector<std::string_view> Texts(int64_t begin, int64_t end) const;
  // Returns the texts of the given documents.
  std::vector<std::string_view> Texts(std::span<const uint32_t> numbers) const;

  std::span<const int32_t> domains() const { return domains_.values(); }  // [n]
  const std::vector<std::string>& domain_names() const { return domain_names_; }

 private:
  DocumentStore(MappedFile texts, NpyArray<int64_t> text_offsets, MappedFile ids,
                NpyArray<int64_t> id_offsets, NpyArray<int32_t> domains,
                std::vector<std::string> domain_names);
  absl::Status Validate(const std::filesystem::path& directory) const;

  MappedFile texts_;
  NpyArray<int64_t> text_offsets_;  // [n + 1]
  MappedFile ids_;
  NpyArray<int64_t> id_offsets_;  // [n + 1]
  NpyArray<int32_t> domains_;     // [n]
  std::vector<std::string> domain_names_;
};

// Returns the position of a stage that has processed the documents before `begin` in order, in
// chunks of about chunk_bytes of text.
StagePosition DocumentPosition(const DocumentStore& documents, int64_t begin, int64_t chunk_bytes);

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_DOCUMENT_STORE_H_
