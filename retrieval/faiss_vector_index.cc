#include <faiss/IVFlib.h>
#include <faiss/Index.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVF.h>
#include <faiss/IndexIVFPQ.h>
#include <faiss/IndexPQ.h>
#include <faiss/IndexPreTransform.h>
#include <faiss/IndexRefine.h>
#include <faiss/MetaIndexes.h>
#include <faiss/impl/io.h>
#include <faiss/index_factory.h>
#include <faiss/index_io.h>
#include <omp.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "retrieval/faiss_call.h"
#include "retrieval/parallel_for.h"
#include "retrieval/vector_index.h"

namespace braid {
namespace {

constexpr int kSearchBreadthOfHnsw = 128;

// Streams an index into an AtomicFile, so that memory never holds it twice.
struct AtomicFileWriter : faiss::IOWriter {
  explicit AtomicFileWriter(AtomicFile* output) : file(output) {}

  size_t operator()(const void* data, size_t size, size_t count) override {
    status = file->Append({static_cast<const char*>(data), size * count});
    return status.ok() ? count : 0;
  }

  AtomicFile* file;
  absl::Status status;
};

// Opens a file and verifies its checksum. FAISS then reads through the same descriptor, not another
// file that was renamed to the path meanwhile.
class VerifiedFile : public faiss::IOReader {
 public:
  static absl::StatusOr<std::unique_ptr<VerifiedFile>> Open(const std::filesystem::path& path,
                                                            const ManifestEntry& expected) {
    std::unique_ptr<VerifiedFile> file(new VerifiedFile(std::fopen(path.c_str(), "rbe")));
    if (file->file_ == nullptr) return SystemError("open", path, errno);
    ASSIGN_OR_RETURN(const FileSummary found, file->Summarize(path));
    if (found.bytes != expected.bytes || found.crc32c != expected.crc32c) {
      return CorruptFile(path, {"index", 0, Describe(found.bytes, found.crc32c),
                                Describe(expected.bytes, expected.crc32c),
                                "The file is damaged; generate it again"});
    }
    std::rewind(file->file_.get());
    return file;
  }

  size_t operator()(void* data, size_t size, size_t count) override {
    return std::fread(data, size, count, file_.get());
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  explicit VerifiedFile(std::FILE* file) : file_(file) {}

  absl::StatusOr<FileSummary> Summarize(const std::filesystem::path& path) {
    FileSummary summary;
    std::vector<char> block(1 << 20);
    while (const size_t count = std::fread(block.data(), 1, block.size(), file_.get())) {
      summary.crc32c = Crc32c({block.data(), count}, summary.crc32c);
      summary.bytes += static_cast<int64_t>(count);
    }
    if (std::ferror(file_.get())) return SystemError("read", path, errno);
    return summary;
  }
  static std::string Describe(int64_t bytes, uint32_t crc32c) {
    return absl::StrCat(bytes, " bytes with CRC-32C ", Crc32cToHex(crc32c));
  }

  const std::unique_ptr<std::FILE, Close> file_;
};

// Returns the index that searches, within those that map ids ("IDMap,PQ8"), transform vectors
// ("PCA64,PQ8") or score candidates again ("PQ8,RFlat").
faiss::Index* Innermost(faiss::Index* index) {
  while (true) {
    if (auto* map = dynamic_cast<faiss::IndexIDMap*>(index)) {
      index = map->index;
    } else if (auto* refined = dynamic_cast<faiss::IndexRefine*>(index)) {
      index = refined->base_index;
    } else if (auto* transformed = dynamic_cast<faiss::IndexPreTransform*>(index)) {
      index = transformed->index;
    } else {
      return index;
    }
  }
}

// Returns the part of an index that has inverted lists; null if there is none.
faiss::IndexIVF* IvfPartOf(faiss::Index* index) {
  return faiss::ivflib::try_extract_index_ivf(Innermost(index));
}

// Returns whether an index has a graph of its vectors or of its centroids.
bool HasGraph(const std::string& factory) { return absl::StrContains(factory, "HNSW"); }

class FaissVectorIndex final : public VectorIndex {
 public:
  FaissVectorIndex(std::unique_ptr<faiss::Index> index, bool has_graph)
      : index_(std::move(index)), ivf_(IvfPartOf(index_.get())), has_graph_(has_graph) {}

  int32_t dimension() const override { return static_cast<int32_t>(index_->d); }
  int64_t num_vectors() const override { return index_->ntotal; }
  bool is_trained() const override { return index_->is_trained; }

  std::optional<int64_t> num_lists() const override {
    if (ivf_ == nullptr) return std::nullopt;
    return static_cast<int64_t>(ivf_->nlist);
  }

  void SetProbes(int64_t num_probes) override {
    BRAID_CHECK(ivf_ != nullptr && num_probes > 0) << num_probes;
    ivf_->nprobe = static_cast<size_t>(num_probes);
  }

  absl::Status Train(std::span<const float> vectors) override {
    const int64_t n = NumRows(vectors);
    return FaissCall(absl::StatusCode::kInvalidArgument,
                     absl::StrCat("training an index on ", n, " vectors"), RetrievalThreads(), [&] {
                       if (has_graph_) UseOneBuilder();
                       index_->train(n, vectors.data());
                     });
  }

  absl::Status Add(std::span<const int64_t> ids, std::span<const float> vectors) override {
    BRAID_CHECK(NumRows(vectors) == static_cast<int64_t>(ids.size())) << ids.size();
    if (!is_trained()) {
      return absl::FailedPreconditionError("the index is not trained; train it, then add vectors");
    }
    return FaissCall(absl::StatusCode::kInternal, absl::StrCat("adding ", ids.size(), " vectors"),
                     RetrievalThreads(), [&] {
                       if (has_graph_ && ivf_ == nullptr) UseOneBuilder();
                       index_->add_with_ids(static_cast<int64_t>(ids.size()), vectors.data(),
                                            ids.data());
                     });
  }

  absl::Status Search(std::span<const float> queries, int32_t k,
                      SearchOutput output) const override {
    const int64_t m = NumRows(queries);
    BRAID_CHECK(static_cast<int64_t>(output.ids.size()) == m * k) << output.ids.size();
    if (!is_trained()) {
      return absl::FailedPreconditionError("the index is not trained; train it and add vectors");
    }
    const absl::Status status = FaissCall(
        absl::StatusCode::kInternal, absl::StrCat("searching ", m, " vectors"), RetrievalThreads(),
        [&] { index_->search(m, queries.data(), k, output.scores.data(), output.ids.data()); });
    if (status.ok()) SortSearchOutput(k, output);
    return status;
  }

  absl::StatusOr<FileSummary> Save(const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
    AtomicFileWriter writer(file.get());
    const absl::Status status =
        FaissCall(absl::StatusCode::kInternal, absl::StrCat("writing index ", path.string()),
                  RetrievalThreads(), [&] { faiss::write_index(index_.get(), &writer); });
    RETURN_IF_ERROR(writer.status);
    RETURN_IF_ERROR(status);
    return file->Commit();
  }

 private:
  // The graph that several threads build depends on their timing, since each links its vectors to
  // those that the others have added so far. BLAS keeps its own threads.
  static void UseOneBuilder() { omp_set_num_threads(1); }

  int64_t NumRows(std::span<const float> vectors) const {
    BRAID_CHECK(vectors.size() % static_cast<size_t>(index_->d) == 0) << vectors.size();
    return static_cast<int64_t>(vectors.size()) / index_->d;
  }

  std::unique_ptr<faiss::Index> index_;
  faiss::IndexIVF* ivf_;  // part of index_; null if it has no lists
  const bool has_graph_;
};

// The names in index strings whose indexes are supported. With others FAISS may end the process or
// never return: lattices (ZnLattice) of more parts than dimensions, and graphs (NSG) of few or of
// equal vectors.
constexpr const char* kParts[] = {"Flat", "IVF",  "HNSW", "PQ", "SQ",    "OPQ",
                                  "PCA",  "PCAR", "PCAW", "RR", "IDMap", "RFlat",
                                  "SQfp", "x",    "np",   "fs", "fsr"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

absl::Status CheckParts(const std::string& factory) {
  for (size_t i = 0; i < factory.size();) {
    size_t end = i;
    while (end < factory.size() && absl::ascii_isalpha(factory[end])) ++end;
    const std::string name = factory.substr(i, end - i);
    const char next = end < factory.size() ? factory[end] : ',';
    const bool known = name.empty() || std::ranges::find(kParts, name) != std::end(kParts);
    if (!known || !(IsDigit(next) || next == ',' || next == '_')) {
      return absl::InvalidArgumentError(absl::StrCat(
          "index \"", factory, "\": got ", known ? std::string(1, next) : name,
          ", expected numbers, commas, underscores and ", absl::StrJoin(kParts, ", ")));
    }
    i = end + 1;
  }
  return absl::OkStatus();
}

// Validates numbers in an index string: FAISS divides by some of them and allocates by others
// before it checks them.
absl::Status CheckNumbers(const std::string& factory) {
  constexpr size_t kMaxDigits = 8;
  constexpr int kMaxSize = 1 << 20;  // FAISS allocates a part for each list
  constexpr int kMaxBits = 16;
  for (size_t i = 0; i < factory.size(); ++i) {
    if (!IsDigit(factory[i])) continue;
    size_t end = i;
    while (end < factory.size() && IsDigit(factory[end])) ++end;
    const bool too_long = end - i > kMaxDigits;
    const int number = too_long ? 0 : std::stoi(factory.substr(i, end - i));
    const bool is_bits = i > 0 && factory[i - 1] == 'x' && absl::StrContains(factory, "PQ");
    const int most = is_bits ? kMaxBits : kMaxSize;
    // The levels of a graph with one link per vector have no limit.
    const int least = absl::EndsWith(factory.substr(0, i), "HNSW") ? 2 : 1;
    if (number < least || number > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("index \"", factory, "\": got ", factory.substr(i, end - i),
                       ", expected at least ", least, " and at most ", most));
    }
    i = end;
  }
  return absl::OkStatus();
}

absl::Status CheckIndexDimension(int32_t d) {
  constexpr int32_t kMaxDimension = 65536;
  if (d >= 1 && d <= kMaxDimension) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("index dimension: got ", d, ", expected 1 to ", kMaxDimension));
}

// Applies settings that index_factory strings cannot express.
void Configure(faiss::Index* index) {
  faiss::Index* const inner = Innermost(index);
  if (auto* hnsw = dynamic_cast<faiss::IndexHNSW*>(inner)) {
    hnsw->hnsw.efSearch = kSearchBreadthOfHnsw;
  }
  // Disables the reordering of codes for a Hamming filter that is never used. It takes most of the
  // training time, minutes for a small index.
  if (auto* pq = dynamic_cast<faiss::IndexPQ*>(inner)) pq->do_polysemous_training = false;
  if (auto* ivf_pq = dynamic_cast<faiss::IndexIVFPQ*>(IvfPartOf(index))) {
    ivf_pq->do_polysemous_training = false;
  }
}

// Returns whether an index stores the ids of its vectors itself.
bool StoresIds(faiss::Index* index) {
  if (auto* transformed = dynamic_cast<faiss::IndexPreTransform*>(index)) {
    index = transformed->index;
  }
  return dynamic_cast<faiss::IndexIVF*>(index) != nullptr ||
         dynamic_cast<faiss::IndexIDMap*>(index) != nullptr;
}

// IVF indexes store ids themselves; the others need an additional map.
std::unique_ptr<faiss::Index> WithIds(std::unique_ptr<faiss::Index> index) {
  if (StoresIds(index.get())) return index;
  auto map = std::make_unique<faiss::IndexIDMap>(index.get());
  map->own_fields = true;
  index.release();
  return map;
}

}  // namespace

absl::Status VectorIndex::CheckFactory(const std::string& factory) {
  constexpr size_t kMaxLength = 64;
  if (factory.empty() || factory.size() > kMaxLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("index string: got ", factory.size(),
                     " characters, expected one such as \"Flat\" or \"IVF1024,Flat\""));
  }
  RETURN_IF_ERROR(CheckParts(factory));
  return CheckNumbers(factory);
}

absl::StatusOr<std::unique_ptr<VectorIndex>> VectorIndex::Create(int32_t d,
                                                                 const std::string& factory) {
  RETURN_IF_ERROR(CheckIndexDimension(d));
  RETURN_IF_ERROR(CheckFactory(factory));
  std::unique_ptr<VectorIndex> made;
  RETURN_IF_ERROR(FaissCall(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("FAISS cannot create index \"", factory, "\" of dimension ", d),
      RetrievalThreads(), [&] {
        std::unique_ptr<faiss::Index> index(
            faiss::index_factory(d, factory.c_str(), faiss::METRIC_INNER_PRODUCT));
        Configure(index.get());
        made = std::make_unique<FaissVectorIndex>(WithIds(std::move(index)), HasGraph(factory));
      }));
  return made;
}

absl::StatusOr<std::unique_ptr<VectorIndex>> VectorIndex::Load(
    const std::filesystem::path& directory, const ManifestEntry& file) {
  const std::filesystem::path path = directory / file.name;
  ASSIGN_OR_RETURN(const std::unique_ptr<VerifiedFile> verified, VerifiedFile::Open(path, file));
  std::unique_ptr<VectorIndex> loaded;
  RETURN_IF_ERROR(FaissCall(absl::StatusCode::kDataLoss,
                            absl::StrCat("reading index ", path.string()), RetrievalThreads(), [&] {
                              std::unique_ptr<faiss::Index> index(
                                  faiss::read_index(verified.get()));
                              // No vectors are added to a loaded index.
                              loaded = std::make_unique<FaissVectorIndex>(std::move(index),
                                                                          /*has_graph=*/false);
                            }));
  return loaded;
}

}  // namespace braid
