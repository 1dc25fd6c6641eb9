#include "pipeline/stages/deduplicate_stage.h"

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pipeline/ordering/deduplicate.h"
#include "pipeline/ordering/minhash.h"
#include "pipeline/stages/decontamination.h"
#include "pipeline/stages/embed_stage.h"
#include "pipeline/store/json_file.h"
#include "pipeline/store/stage_key.h"

namespace braid {
namespace {

constexpr int32_t kDeduplicateFormatVersion = 3;
constexpr size_t kDeduplicateMaxExamples = 20;
constexpr int64_t kBytesPerReport = int64_t{4} << 20;

bool UsesMinHash(const v1::DeduplicateConfig& config) {
  return config.near_duplicates() == "minhash";
}

absl::StatusOr<Duplicates> Find(const DocumentStore& documents, const StoredNeighbors& neighbors,
                                const v1::CorpusSpec& resolved, const ProgressCallback& progress) {
  const v1::DeduplicateConfig& config = resolved.deduplicate();
  if (config.disabled()) return Duplicates{};
  int64_t num_bytes = 0, furthest = 0;
  const auto text = [&](uint32_t i) -> absl::StatusOr<std::string> {
    const std::string_view found = documents.text(i);
    furthest = std::max<int64_t>(furthest, i);
    num_bytes += static_cast<int64_t>(found.size());
    if (num_bytes >= kBytesPerReport) {
      RETURN_IF_ERROR(progress(furthest, documents.size()));
      num_bytes = 0;
    }
    return std::string(found);
  };
  DeduplicateOptions options;
  options.min_cosine = config.min_cosine();
  options.min_jaccard = config.min_jaccard();
  if (UsesMinHash(config)) {
    options.candidates = [&](std::span<const uint32_t> first) {
      return MinHashCandidates(documents, first,
                               {.bands = config.minhash_bands(),
                                .rows = config.minhash_rows(),
                                .seed = resolved.seed(),
                                .min_jaccard = config.min_jaccard()},
                               progress);
    };
  }
  return FindDuplicates(neighbors.lists(), documents.size(), text, options);
}

nlohmann::json Examples(const Duplicates& duplicates, const DocumentStore& documents) {
  nlohmann::json examples = nlohmann::json::array();
  for (const DuplicatePair& pair : duplicates.pairs) {
    if (examples.size() == kDeduplicateMaxExamples) break;
    examples.push_back({{"removed", std::string(documents.id(pair.removed))},
                        {"kept", std::string(documents.id(pair.kept))},
                        {"exact", pair.exact},
                        {"cosine", pair.cosine},
                        {"jaccard", pair.jaccard}});
  }
  return examples;
}

// Returns, for each domain, the number of documents and of removed ones.
nlohmann::json ByDomain(const Duplicates& duplicates, const DocumentStore& documents) {
  struct Counts {
    int64_t documents = 0, exact = 0, near = 0;
  };
  std::vector<Counts> counts(documents.domain_names().size());
  for (const int32_t domain : documents.domains()) ++counts[static_cast<size_t>(domain)].documents;
  for (const DuplicatePair& pair : duplicates.pairs) {
    Counts& domain = counts[static_cast<size_t>(documents.domain(pair.removed))];
    ++(pair.exact ? domain.exact : domain.near);
  }
  nlohmann::json domains = nlohmann::json::object();
  for (size_t i = 0; i < counts.size(); ++i) {
    const Counts& domain = counts[i];
    domains[documents.domain_names()[i]] = {
        {"num_documents", domain.documents},
        {"num_exact", domain.exact},
        {"num_near", domain.near},
        {"share", static_cast<double>(domain.exact + domain.near) /
                      static_cast<double>(std::max<int64_t>(domain.documents, 1))}};
  }
  return domains;
}

nlohmann::json Describe(const Duplicates& duplicates, const DocumentStore& documents) {
  return {
      {"num_documents", documents.size()},          {"num_removed", duplicates.removed.size()},
      {"num_exact", duplicates.num_exact},          {"num_near", duplicates.num_near},
      {"num_compared", duplicates.num_compared},    {"domains", ByDomain(duplicates, documents)},
      {"examples", Examples(duplicates, documents)}};
}

// Sets the cosine of each pair to that of its embeddings: an edge may have joined other copies of
// the two texts, and equal normalized texts may have different embeddings.
absl::Status SetCosines(const std::filesystem::path& embed_directory,
                        std::vector<DuplicatePair>* pairs) {
  if (pairs->empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto embeddings,
                   NpyArray<float>::Open(embed_directory / "embeddings.npy"));
  for (DuplicatePair& pair : *pairs)
    pair.cosine = CosineOfRows(embeddings, pair.removed, pair.kept);
  return absl::OkStatus();
}

absl::Status StorePairs(const Duplicates& duplicates, StageWriter* stage) {
  std::vector<uint32_t> pairs;
  std::vector<float> similarities;
  for (const DuplicatePair& pair : duplicates.pairs) {
    pairs.insert(pairs.end(), {pair.removed, pair.kept, pair.exact ? 1u : 0u});
    similarities.insert(similarities.end(),
                        {static_cast<float>(pair.cosine), static_cast<float>(pair.jaccard)});
  }
  RETURN_IF_ERROR(stage->AddArray<uint32_t>("duplicate_pairs.npy", pairs, {3}));
  return stage->AddArray<float>("duplicate_similarities.npy", similarities, {2});
}

}  // namespace

absl::StatusOr<std::string> DeduplicateKey(const v1::CorpusSpec& resolved,
                                           const std::string& neighbor_key) {
  const v1::DeduplicateConfig& config = resolved.deduplicate();
  StageKey key("deduplicate", kDeduplicateFormatVersion);
  key.Add("neighbors", neighbor_key).Add("disabled", config.disabled());
  if (!config.disabled()) {
    key.Add("min_cosine", config.min_cosine()).Add("min_jaccard", config.min_jaccard());
  }
  if (!config.disabled() && UsesMinHash(config)) {
    key.Add("minhash_bands", config.minhash_bands())
        .Add("minhash_rows", config.minhash_rows())
        .Add("seed", static_cast<uint64_t>(resolved.seed()));
  }
  RETURN_IF_ERROR(AddDecontamination(resolved.decontaminate(), &key));
  return key.Hex();
}

absl::Status Deduplicate(const DocumentStore& documents, const StoredNeighbors& neighbors,
                         const std::filesystem::path& embed_directory,
                         const v1::CorpusSpec& resolved, const ProgressCallback& progress,
                         StageWriter* stage) {
  RETURN_IF_ERROR(progress(0, documents.size()));
  ASSIGN_OR_RETURN(Duplicates duplicates, Find(documents, neighbors, resolved, progress));
  RETURN_IF_ERROR(SetCosines(embed_directory, &duplicates.pairs));
  std::vector<uint8_t> keep(static_cast<size_t>(documents.size()), 1);
  for (const uint32_t i : duplicates.removed) keep[i] = 0;
  RETURN_IF_ERROR(Decontaminate(documents, resolved.decontaminate(), progress, &keep, stage));
  RETURN_IF_ERROR(stage->AddArray<uint8_t>("keep.npy", keep));
  RETURN_IF_ERROR(StorePairs(duplicates, stage));
  return stage->AddText("duplicates.json", FormatJson(Describe(duplicates, documents)),
                        static_cast<int64_t>(duplicates.removed.size()));
}

absl::StatusOr<StoredDuplicates> StoredDuplicates::Open(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(auto pairs, NpyArray<uint32_t>::Open(directory / "duplicate_pairs.npy"));
  ASSIGN_OR_RETURN(auto similarities,
                   NpyArray<float>::Open(directory / "duplicate_similarities.npy"));
  if (pairs.row_size() != 3 || similarities.row_size() != 2 ||
      pairs.num_rows() != similarities.num_rows()) {
    return absl::DataLossError(
        absl::StrCat(directory.string(),
                     ": expected duplicate_pairs.npy of shape [m, 3] and "
                     "duplicate_similarities.npy of shape [m, 2]; remove the directory and resume "
                     "the job"));
  }
  return StoredDuplicates(std::move(pairs), std::move(similarities));
}

std::optional<DuplicatePair> StoredDuplicates::Find(uint32_t document) const {
  const auto rows = std::views::iota(int64_t{0}, pairs_.num_rows());
  const auto removed = [&](int64_t row) { return pairs_.row(row)[0]; };
  const auto found = std::ranges::lower_bound(rows, document, {}, removed);
  if (found == rows.end() || removed(*found) != document) return std::nullopt;
  const std::span<const uint32_t> pair = pairs_.row(*found);
  const std::span<const float> similarity = similarities_.row(*found);
  return DuplicatePair{pair[0], pair[1], pair[2] != 0, similarity[0], similarity[1]};
}

bool StoredDuplicates::AllBelow(int64_t num_documents) const {
  for (int64_t i = 0; i < pairs_.num_rows(); ++i) {
    if (std::max(pairs_.row(i)[0], pairs_.row(i)[1]) >= num_documents) return false;
  }
  return true;
}

int64_t StoredDuplicates::num_exact() const {
  int64_t count = 0;
  for (int64_t row = 0; row < pairs_.num_rows(); ++row) count += pairs_.row(row)[2];
  return count;
}

}  // namespace braid
