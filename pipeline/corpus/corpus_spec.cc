#include "pipeline/corpus/corpus_spec.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/status_macros.h"
#include "pipeline/corpus/filter_expression.h"
#include "proto/stated_defaults.h"
#include "retrieval/neighbor_settings.h"
#include "retrieval/vector_index.h"

namespace braid {
namespace {

absl::Status Wrong(std::string_view field, const std::string& got, std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), ": got ", got, ", expected ", std::string(expected)));
}

template <class T>
absl::Status CheckRange(std::string_view field, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();  // NaN fails too
  return Wrong(field, absl::StrCat(value), absl::StrCat("a value from ", low, " to ", high));
}

absl::Status MakeAbsolute(std::string_view field, std::string* path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(*path, error);
  if (error) return Wrong(field, *path, absl::StrCat("a usable path: ", error.message()));
  *path = absolute.lexically_normal().string();
  if (path->size() > 1 && path->back() == '/') path->pop_back();
  return absl::OkStatus();
}

absl::Status ResolvePaths(v1::CorpusSpec* spec) {
  if (spec->paths().empty()) {
    return Wrong("paths", "none",
                 "at least one file (.parquet, .jsonl, .json, .ndjson, .txt; also .gz, .zst) or "
                 "directory");
  }
  for (std::string& path : *spec->mutable_paths()) {
    if (path.empty()) return Wrong("paths", "an empty path", "a file or directory");
    RETURN_IF_ERROR(MakeAbsolute("paths", &path));
  }
  if (spec->name().empty()) {
    spec->set_name(std::filesystem::path(spec->paths(0)).filename().string());
  }
  return absl::OkStatus();
}

absl::Status ResolveIngest(v1::IngestConfig* ingest) {
  FillStatedDefaults(ingest);
  RETURN_IF_ERROR(CheckRange<int64_t>("ingest.max_document_bytes", ingest->max_document_bytes(), 1,
                                      int64_t{1} << 30));
  RETURN_IF_ERROR(CheckRange<int64_t>("ingest.max_expansion_ratio", ingest->max_expansion_ratio(),
                                      1, int64_t{1} << 30));
  RETURN_IF_ERROR(CheckRange<int64_t>("ingest.max_expanded_bytes", ingest->max_expanded_bytes(), 1,
                                      int64_t{1} << 60));
  if (!ingest->where().empty()) RETURN_IF_ERROR(ParseFilterExpression(ingest->where()).status());
  if (ingest->split_bytes() == 0) return absl::OkStatus();
  if (!ingest->embedding_field().empty()) {
    return Wrong("ingest.split_bytes", absl::StrCat(ingest->split_bytes()),
                 "none with ingest.embedding_field, whose vectors are those of whole records");
  }
  return CheckRange<int64_t>("ingest.split_bytes", ingest->split_bytes(), 64, int64_t{1} << 30);
}

absl::Status ResolveTokenizer(v1::TokenizerConfig* tokenizer) {
  if (!tokenizer->model_path().empty()) {
    if (tokenizer->has_vocab_size()) {
      return Wrong("tokenizer.vocab_size", absl::StrCat(tokenizer->vocab_size()),
                   "none together with tokenizer.model_path, which determines the size");
    }
    std::error_code error;
    const auto absolute = std::filesystem::absolute(tokenizer->model_path(), error);
    if (!error) tokenizer->set_model_path(absolute.lexically_normal().string());
    return absl::OkStatus();
  }
  FillStatedDefaults(tokenizer);
  if (tokenizer->has_vocab_size()) {
    RETURN_IF_ERROR(CheckRange("tokenizer.vocab_size", tokenizer->vocab_size(), 260, 1 << 20));
  }
  return CheckRange<int64_t>("tokenizer.sample_bytes", tokenizer->sample_bytes(), 1,
                             int64_t{1} << 34);
}

// Checks that every address is HOST:PORT and that all differ.
absl::Status CheckAddresses(std::string_view field,
                            const google::protobuf::RepeatedPtrField<std::string>& addresses) {
  std::set<std::string> known;
  for (const std::string& address : addresses) {
    RETURN_IF_ERROR(CheckHostPort(field, address));
    if (!known.insert(address).second) {
      return Wrong(field, absl::StrCat("\"", address, "\" twice"), "each server once");
    }
  }
  return absl::OkStatus();
}

absl::Status ResolveModel(v1::EmbedderConfig* embedder) {
  if (embedder->model_dir().empty()) {
    return Wrong("embedder.model_dir", "none",
                 embedder->kind() == "static"
                     ? "a directory with model.safetensors and tokenizer.json"
                     : "a directory with config.json, model.safetensors and vocab.txt or "
                       "tokenizer.json");
  }
  RETURN_IF_ERROR(MakeAbsolute("embedder.model_dir", embedder->mutable_model_dir()));
  if (!embedder->has_max_tokens()) return absl::OkStatus();
  return CheckRange("embedder.max_tokens", embedder->max_tokens(), 3, 1 << 16);
}

// Checks that no settings of another kind of embedder are set.
absl::Status RefuseOthers(const v1::EmbedderConfig& embedder) {
  if (!embedder.addresses().empty() && embedder.kind() != "remote") {
    return Wrong("embedder.addresses", embedder.addresses(0),
                 "none unless embedder.kind is \"remote\"");
  }
  if (embedder.kind() == "contriever") return absl::OkStatus();
  if (!embedder.model_dir().empty() && embedder.kind() != "static") {
    return Wrong("embedder.model_dir", embedder.model_dir(),
                 "none unless embedder.kind is \"contriever\" or \"static\"");
  }
  constexpr char kNone[] = "none unless embedder.kind is \"contriever\"";
  if (embedder.has_text_prefix()) {
    return Wrong("embedder.text_prefix", absl::StrCat("\"", embedder.text_prefix(), "\""), kNone);
  }
  if (!embedder.has_max_tokens()) return absl::OkStatus();
  return Wrong("embedder.max_tokens", absl::StrCat(embedder.max_tokens()), kNone);
}

absl::Status CheckEmbeddingServers(const v1::EmbedderConfig& embedder) {
  if (embedder.addresses().empty()) {
    return Wrong("embedder.addresses", "none", "host:port of at least one embedding service");
  }
  return CheckAddresses("embedder.addresses", embedder.addresses());
}

// Checks that documents have the vectors of the corpus if and only if it brings some.
absl::Status CheckVectorSource(const v1::EmbedderConfig& embedder, const v1::IngestConfig& ingest) {
  const bool brings_vectors = !ingest.embedding_field().empty();
  if (brings_vectors == (embedder.kind() == "corpus")) return absl::OkStatus();
  return Wrong("embedder.kind", absl::StrCat("\"", embedder.kind(), "\""),
               brings_vectors ? "\"corpus\" with ingest.embedding_field"
                              : "another kind, or the name of a field in ingest.embedding_field");
}

absl::Status ResolveEmbedder(const v1::IngestConfig& ingest, v1::EmbedderConfig* embedder) {
  if (embedder->kind().empty()) {
    embedder->set_kind(ingest.embedding_field().empty() ? "hashing" : "corpus");
  }
  const bool has_max_ngram = embedder->has_max_ngram();
  FillStatedDefaults(embedder);
  if (embedder->kind() != "hashing" && !has_max_ngram) embedder->clear_max_ngram();
  RETURN_IF_ERROR(RefuseOthers(*embedder));
  RETURN_IF_ERROR(CheckVectorSource(*embedder, ingest));
  if (embedder->kind() == "remote") return CheckEmbeddingServers(*embedder);
  if (embedder->kind() == "corpus") return absl::OkStatus();
  if (embedder->kind() == "contriever" || embedder->kind() == "static") {
    return ResolveModel(embedder);
  }
  if (embedder->kind() != "hashing") {
    return Wrong("embedder.kind", absl::StrCat("\"", embedder->kind(), "\""),
                 "\"hashing\", \"static\", \"contriever\", \"corpus\" or \"remote\"");
  }
  if (embedder->has_dimension()) {
    RETURN_IF_ERROR(CheckRange("embedder.dimension", embedder->dimension(), 1, 65536));
  }
  return CheckRange("embedder.max_ngram", embedder->max_ngram(), 1, 8);
}

// Checks the settings of remote neighbor search, which supports exact search and inverted lists.
absl::Status CheckNeighborServers(const v1::NeighborConfig& neighbors) {
  if (neighbors.addresses().empty()) return absl::OkStatus();
  if (neighbors.index() != "auto" && neighbors.index() != kExactIndex &&
      !PlainListsOf(neighbors.index())) {
    return Wrong("neighbors.index", absl::StrCat("\"", neighbors.index(), "\""),
                 "\"auto\", \"Flat\" or \"IVF<lists>,Flat\" with neighbors.addresses");
  }
  return CheckAddresses("neighbors.addresses", neighbors.addresses());
}

// The dimension of hashed vectors of a corpus of any size is a multiple of it.
constexpr int32_t kLeastHashedDimension = 256;

// Checks an index that FAISS makes, now rather than after the stages before. Vectors of an embedder
// other than hashing have a dimension that is not known yet, so only the string is checked.
absl::Status CheckIndex(const std::string& index, const v1::EmbedderConfig& embedder) {
  if (index == "auto" || index == kExactIndex || PlainListsOf(index)) return absl::OkStatus();
  const int32_t dimension = embedder.has_dimension() ? embedder.dimension() : kLeastHashedDimension;
  const absl::Status made = embedder.kind() == "hashing"
                                ? VectorIndex::Create(dimension, index).status()
                                : VectorIndex::CheckFactory(index);
  if (made.ok()) return absl::OkStatus();
  return Wrong("neighbors.index", absl::StrCat("\"", index, "\""),
               absl::StrCat("\"auto\", \"Flat\" or another supported one: ", made.message()));
}

absl::Status ResolveNeighbors(const v1::EmbedderConfig& embedder, v1::NeighborConfig* neighbors) {
  FillStatedDefaults(neighbors);
  RETURN_IF_ERROR(CheckNeighborServers(*neighbors));
  RETURN_IF_ERROR(CheckIndex(neighbors->index(), embedder));
  RETURN_IF_ERROR(CheckRange("neighbors.k", neighbors->k(), 1, 1024));
  if (neighbors->has_nprobe()) {
    RETURN_IF_ERROR(CheckRange("neighbors.nprobe", neighbors->nprobe(), 1, 1 << 20));
  }
  return CheckRange("neighbors.recall_sample", neighbors->recall_sample(), 1, 10000000);
}

absl::Status ResolveMinHash(v1::DeduplicateConfig* deduplicate) {
  if (deduplicate->near_duplicates().empty()) deduplicate->set_near_duplicates("graph");
  if (deduplicate->near_duplicates() == "minhash") {
    if (!deduplicate->has_minhash_bands()) deduplicate->set_minhash_bands(14);
    if (!deduplicate->has_minhash_rows()) deduplicate->set_minhash_rows(8);
    RETURN_IF_ERROR(CheckRange("deduplicate.minhash_bands", deduplicate->minhash_bands(), 1, 256));
    return CheckRange("deduplicate.minhash_rows", deduplicate->minhash_rows(), 2, 64);
  }
  if (deduplicate->near_duplicates() != "graph") {
    return Wrong("deduplicate.near_duplicates",
                 absl::StrCat("\"", deduplicate->near_duplicates(), "\""),
                 "\"graph\" or \"minhash\"");
  }
  constexpr char kNone[] = "none unless deduplicate.near_duplicates is \"minhash\"";
  if (deduplicate->has_minhash_bands()) {
    return Wrong("deduplicate.minhash_bands", absl::StrCat(deduplicate->minhash_bands()), kNone);
  }
  if (!deduplicate->has_minhash_rows()) return absl::OkStatus();
  return Wrong("deduplicate.minhash_rows", absl::StrCat(deduplicate->minhash_rows()), kNone);
}

absl::Status ResolveDecontaminate(v1::DecontaminateConfig* decontaminate) {
  for (std::string& path : *decontaminate->mutable_paths()) {
    if (path.empty()) {
      return Wrong("decontaminate.paths", "an empty path", "a file or directory");
    }
    RETURN_IF_ERROR(MakeAbsolute("decontaminate.paths", &path));
  }
  if (decontaminate->paths().empty() && decontaminate->report_only()) {
    return Wrong("decontaminate.report_only", "true", "false without decontaminate.paths");
  }
  return absl::OkStatus();
}

absl::Status ResolveDeduplicate(v1::DeduplicateConfig* deduplicate) {
  RETURN_IF_ERROR(ResolveMinHash(deduplicate));
  FillStatedDefaults(deduplicate);
  RETURN_IF_ERROR(CheckRange("deduplicate.max_heldout_containment",
                             deduplicate->max_heldout_containment(), 0.01, 2.0));
  RETURN_IF_ERROR(CheckRange("deduplicate.min_cosine", deduplicate->min_cosine(), 0.0, 1.0));
  RETURN_IF_ERROR(CheckRange("deduplicate.min_jaccard", deduplicate->min_jaccard(), 0.01, 1.0));
  return CheckRange("deduplicate.max_heldout_cosine", deduplicate->max_heldout_cosine(), 0.0, 2.0);
}

absl::Status ResolveOrder(v1::CorpusSpec* spec) {
  if (spec->has_order_partitions()) {
    RETURN_IF_ERROR(CheckRange("order_partitions", spec->order_partitions(), 1, 65'536));
  }
  if (v1::OrderMode_IsValid(spec->order())) return absl::OkStatus();
  return Wrong("order", absl::StrCat(static_cast<int>(spec->order())),
               "SIMILARITY, RANDOM or SOURCE");
}

absl::Status ResolvePack(v1::PackConfig* pack) {
  FillStatedDefaults(pack);
  RETURN_IF_ERROR(CheckRange("pack.sequence_length", pack->sequence_length(), 2, 1 << 24));
  RETURN_IF_ERROR(CheckRange("pack.domain_clusters", pack->domain_clusters(), 0, 64));
  if (pack->has_runs_per_instance()) {
    RETURN_IF_ERROR(CheckRange("pack.runs_per_instance", pack->runs_per_instance(), 1,
                               pack->sequence_length()));
  }
  if (!(pack->heldout_fraction() < 1)) {
    return Wrong("pack.heldout_fraction", absl::StrCat(pack->heldout_fraction()),
                 "a fraction below 1 (0 holds out no documents)");
  }
  // Earlier versions wrote -1 where 0 disables the split now.
  pack->set_heldout_fraction(std::max(0.0, pack->heldout_fraction()));
  return absl::OkStatus();
}

// Checks the settings of the hashing embedder, which others do not have.
absl::Status CheckHashingIsUsed(const v1::CorpusSpec& spec) {
  const v1::EmbedderConfig& embedder = spec.embedder();
  const bool hashing = embedder.kind().empty() ? spec.ingest().embedding_field().empty()
                                               : embedder.kind() == "hashing";
  if (hashing) return absl::OkStatus();
  constexpr char kNone[] = "none unless embedder.kind is \"hashing\"";
  if (embedder.has_dimension()) {
    return Wrong("embedder.dimension", absl::StrCat(embedder.dimension()), kNone);
  }
  if (!embedder.has_max_ngram()) return absl::OkStatus();
  return Wrong("embedder.max_ngram", absl::StrCat(embedder.max_ngram()), kNone);
}

// Refuses settings that disabled deduplication ignores. A resolved spec contains the defaults, so
// these are accepted.
absl::Status CheckDeduplicationIsUsed(const v1::DeduplicateConfig& asked) {
  if (!asked.disabled()) return absl::OkStatus();
  constexpr char kNone[] = "none with deduplicate.disabled";
  if (!asked.near_duplicates().empty() && asked.near_duplicates() != "graph") {
    return Wrong("deduplicate.near_duplicates", absl::StrCat("\"", asked.near_duplicates(), "\""),
                 kNone);
  }
  v1::DeduplicateConfig defaults, filled = asked;
  FillStatedDefaults(&defaults);
  FillStatedDefaults(&filled);
  const std::tuple<const char*, double, double> numbers[] = {
      {"deduplicate.min_cosine", filled.min_cosine(), defaults.min_cosine()},
      {"deduplicate.min_jaccard", filled.min_jaccard(), defaults.min_jaccard()},
      {"deduplicate.max_heldout_cosine", filled.max_heldout_cosine(),
       defaults.max_heldout_cosine()},
      {"deduplicate.max_heldout_containment", filled.max_heldout_containment(),
       defaults.max_heldout_containment()}};
  for (const auto& [field, got, usual] : numbers) {
    if (got != usual) return Wrong(field, absl::StrCat(got), kNone);
  }
  return absl::OkStatus();
}

absl::Status CheckMinCosineIsUsed(const v1::DeduplicateConfig& deduplicate) {
  if (deduplicate.near_duplicates() != "minhash" || !deduplicate.has_min_cosine()) {
    return absl::OkStatus();
  }
  v1::DeduplicateConfig defaults;
  FillStatedDefaults(&defaults);
  // A spec that was resolved has the default.
  if (deduplicate.min_cosine() == defaults.min_cosine()) return absl::OkStatus();
  return Wrong("deduplicate.min_cosine", absl::StrCat(deduplicate.min_cosine()),
               "none unless deduplicate.near_duplicates is \"graph\"");
}

}  // namespace

absl::Status CheckSettingsAreUsed(const v1::CorpusSpec& spec) {
  RETURN_IF_ERROR(CheckHashingIsUsed(spec));
  RETURN_IF_ERROR(CheckDeduplicationIsUsed(spec.deduplicate()));
  RETURN_IF_ERROR(CheckMinCosineIsUsed(spec.deduplicate()));
  if (!spec.tokenizer().model_path().empty() && spec.tokenizer().has_sample_bytes()) {
    return Wrong("tokenizer.sample_bytes", absl::StrCat(spec.tokenizer().sample_bytes()),
                 "none together with tokenizer.model_path, which is not trained");
  }
  if (spec.neighbors().index() == kExactIndex && spec.neighbors().has_nprobe()) {
    return Wrong("neighbors.nprobe", absl::StrCat(spec.neighbors().nprobe()),
                 "none with neighbors.index \"Flat\", which has no lists");
  }
  v1::CorpusSpec filled = spec;
  FillStatedDefaults(&filled);
  if (filled.order() == v1::RANDOM && RunsPerInstance(spec) > 1) {
    return Wrong("pack.runs_per_instance", absl::StrCat(spec.pack().runs_per_instance()),
                 "none with order RANDOM, in which consecutive documents are not similar");
  }
  if (filled.order() == v1::SIMILARITY || !spec.has_order_partitions()) return absl::OkStatus();
  return Wrong("order_partitions", absl::StrCat(spec.order_partitions()),
               "none unless order is SIMILARITY");
}

absl::StatusOr<v1::CorpusSpec> ResolveCorpusSpec(const v1::CorpusSpec& spec) {
  v1::CorpusSpec resolved = spec;
  FillStatedDefaults(&resolved);
  RETURN_IF_ERROR(ResolvePaths(&resolved));
  RETURN_IF_ERROR(ResolveIngest(resolved.mutable_ingest()));
  RETURN_IF_ERROR(ResolveTokenizer(resolved.mutable_tokenizer()));
  RETURN_IF_ERROR(ResolveEmbedder(resolved.ingest(), resolved.mutable_embedder()));
  RETURN_IF_ERROR(ResolveNeighbors(resolved.embedder(), resolved.mutable_neighbors()));
  RETURN_IF_ERROR(ResolveDeduplicate(resolved.mutable_deduplicate()));
  if (resolved.has_decontaminate()) {
    RETURN_IF_ERROR(ResolveDecontaminate(resolved.mutable_decontaminate()));
  }
  RETURN_IF_ERROR(ResolveOrder(&resolved));
  RETURN_IF_ERROR(ResolvePack(resolved.mutable_pack()));
  if (resolved.has_num_threads()) {
    RETURN_IF_ERROR(CheckRange("num_threads", resolved.num_threads(), 1, 4096));
  }
  return resolved;
}

absl::StatusOr<v1::CorpusSpec> ResolveStoredSpec(const v1::CorpusSpec& spec) {
  v1::CorpusSpec stored = spec;
  if (stored.order() == v1::ORDER_MODE_UNSPECIFIED) stored.set_order(v1::SIMILARITY);
  return ResolveCorpusSpec(stored);
}

int32_t RunsPerInstance(const v1::CorpusSpec& spec) {
  return spec.pack().has_runs_per_instance() ? spec.pack().runs_per_instance() : 1;
}

double HeldoutFraction(const v1::CorpusSpec& resolved) {
  return std::max(0.0, resolved.pack().heldout_fraction());
}

}  // namespace braid
