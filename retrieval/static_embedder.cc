#include "retrieval/static_embedder.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/weight_files.h"
#include "retrieval/parallel_for.h"
#include "retrieval/unit_length.h"
#include "retrieval/wordpiece_json.h"

namespace braid {
namespace {

// Must be incremented with every change of the code that changes vectors.
constexpr int kStaticVersion = 1;
constexpr char kTableName[] = "embeddings";
constexpr int64_t kTextsPerBlock = 16;
constexpr int64_t kMaxDimension = 1 << 16;

absl::Status TableError(const std::filesystem::path& directory, const std::string& got,
                        const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(directory.string(), ": model.safetensors: got ", got, ", expected ", expected));
}

// Returns the shape [V, d] of the table.
absl::StatusOr<std::pair<int64_t, int64_t>> ShapeOfTable(const WeightFiles& files,
                                                         const WordPieceTokenizer& tokenizer,
                                                         const std::filesystem::path& directory) {
  const TensorInfo* const table = files.Find(kTableName);
  if (table == nullptr || files.names().size() != 1) {
    return TableError(directory, "the tensors " + absl::StrJoin(files.names(), ", ").substr(0, 100),
                      "only \"embeddings\" (weights and mappings of tokens are not supported)");
  }
  const std::vector<int64_t>& shape = table->shape;
  const int64_t num_pieces = tokenizer.vocabulary().size();
  if (shape.size() == 2 && shape[0] >= num_pieces && shape[1] >= 1 && shape[1] <= kMaxDimension) {
    return std::pair(shape[0], shape[1]);
  }
  return TableError(
      directory, absl::StrCat("embeddings of shape [", absl::StrJoin(shape, ", "), "]"),
      absl::StrCat("[V, d] with at least ", num_pieces,
                   " rows, one per piece of tokenizer.json, and d up to ", kMaxDimension));
}

// Adds `row` to `sums`. The fixed length of the inner loop lets the compiler use vectors.
void AddRow(const float* row, std::span<float> sums) {
  constexpr size_t kLanes = 8;
  float* const sum = sums.data();
  size_t j = 0;
  for (; j + kLanes <= sums.size(); j += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sum[j + lane] += row[j + lane];
  }
  for (; j < sums.size(); ++j) sum[j] += row[j];
}

void Prefetch(const float* row, size_t size) {
  constexpr size_t kCacheLine = 64 / sizeof(float);
  for (size_t j = 0; j < size; j += kCacheLine) __builtin_prefetch(row + j);
}

// The opened and checked files of a directory.
struct StaticFiles {
  WordPieceTokenizer tokenizer;
  WeightFiles weights;
  std::pair<int64_t, int64_t> shape;  // [V, d] of the table
};

absl::StatusOr<StaticFiles> OpenStaticFiles(const StaticOptions& options) {
  if (options.max_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens: got ", options.max_tokens, ", expected at least 1"));
  }
  const std::filesystem::path path = options.directory / "tokenizer.json";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(WordPieceTokenizer tokenizer, ParseWordPieceJson(text, path));
  ASSIGN_OR_RETURN(WeightFiles weights, WeightFiles::Open(options.directory));
  ASSIGN_OR_RETURN(const auto shape, ShapeOfTable(weights, tokenizer, options.directory));
  return StaticFiles{std::move(tokenizer), std::move(weights), shape};
}

}  // namespace

absl::Status StaticEmbedder::Check(const StaticOptions& options) {
  return OpenStaticFiles(options).status();
}

absl::StatusOr<std::unique_ptr<StaticEmbedder>> StaticEmbedder::Load(const StaticOptions& options) {
  ASSIGN_OR_RETURN(StaticFiles files, OpenStaticFiles(options));
  const auto shape = files.shape;
  std::unique_ptr<StaticEmbedder> embedder(new StaticEmbedder(options, std::move(files.tokenizer)));
  embedder->dimension_ = static_cast<int32_t>(shape.second);
  embedder->table_.resize(static_cast<size_t>(shape.first * shape.second));
  RETURN_IF_ERROR(files.weights.Read(kTableName, embedder->table_));
  const std::vector<float>& table = embedder->table_;
  const XXH128_hash_t table_hash = XXH3_128bits(table.data(), table.size() * sizeof(float));
  const std::string settings =
      absl::StrCat("version=", kStaticVersion, " table=", table_hash.high64, "-", table_hash.low64,
                   " d=", shape.second, " ", embedder->tokenizer_.Settings(),
                   " max_tokens=", options.max_tokens);
  const XXH128_hash_t hash = XXH3_128bits(settings.data(), settings.size());
  embedder->fingerprint_ = absl::StrFormat("static-%016x%016x", hash.high64, hash.low64);
  return embedder;
}

absl::Status StaticEmbedder::Embed(std::span<const std::string_view> texts,
                                   std::span<float> vectors) const {
  return EmbedAndCountCut(texts, vectors).status();
}

absl::StatusOr<int64_t> StaticEmbedder::EmbedAndCountCut(std::span<const std::string_view> texts,
                                                         std::span<float> vectors) const {
  const auto d = static_cast<size_t>(dimension_);
  if (vectors.size() != texts.size() * d) {
    return absl::InvalidArgumentError(absl::StrCat("static embedder: got an output of ",
                                                   vectors.size(), " values, expected ",
                                                   texts.size(), " x ", dimension_));
  }
  std::atomic<int64_t> num_cut = 0;
  ParallelFor(static_cast<int64_t>(texts.size()), kTextsPerBlock, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (EmbedOne(texts[i], vectors.subspan(i * d, d))) ++num_cut;
    }
  });
  return num_cut.load();
}

bool StaticEmbedder::EmbedOne(std::string_view text, std::span<float> vector) const {
  const WordPieces pieces = tokenizer_.Encode(text, max_tokens_ + 2);
  std::ranges::fill(vector, 0.0f);
  const std::span<const int32_t> ids = std::span(pieces.ids).subspan(1, pieces.ids.size() - 2);
  const auto row_of = [&](int32_t id) {
    return table_.data() + static_cast<size_t>(id) * vector.size();
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    // Rows of rare tokens are not in the caches.
    if (i + 1 < ids.size()) Prefetch(row_of(ids[i + 1]), vector.size());
    if (ids[i] != tokenizer_.vocabulary().unknown_id()) AddRow(row_of(ids[i]), vector);
  }
  ScaleToUnitLength<float>(vector, vector);
  return pieces.truncated;
}

}  // namespace braid
