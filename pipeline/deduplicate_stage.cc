#include "pipeline/deduplicate_stage.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "formats/status_macros.h"
#include "pipeline/deduplicate.h"
#include "pipeline/json_file.h"
#include "pipeline/stage_key.h"

namespace braid {
namespace {

constexpr int32_t kFormatVersion = 1;
constexpr uint32_t kDocumentsPerAdvance = 1024;

absl::StatusOr<Duplicates> Find(const DocumentStore& documents, const StoredNeighbors& neighbors,
                                const v1::DeduplicateConfig& config, const StageAdvance& advance) {
  if (config.disabled()) return Duplicates{};
  const auto text = [&](uint32_t i) -> absl::StatusOr<std::string> {
    if (i % kDocumentsPerAdvance == 0) RETURN_IF_ERROR(advance(i, documents.size()));
    return std::string(documents.text(i));
  };
  DeduplicateOptions options;
  options.min_cosine = config.min_cosine();
  options.min_jaccard = config.min_jaccard();
  return FindDuplicates(neighbors.lists(), documents.size(), text, options);
}

nlohmann::json Describe(const Duplicates& duplicates, const DocumentStore& documents) {
  nlohmann::json examples = nlohmann::json::array();
  for (const DuplicatePair& pair : duplicates.examples) {
    examples.push_back({{"removed", std::string(documents.id(pair.removed))},
                        {"kept", std::string(documents.id(pair.kept))},
                        {"exact", pair.exact},
                        {"cosine", pair.cosine},
                        {"jaccard", pair.jaccard}});
  }
  return {{"num_documents", documents.size()},       {"num_removed", duplicates.removed.size()},
          {"num_exact", duplicates.num_exact},       {"num_near", duplicates.num_near},
          {"num_compared", duplicates.num_compared}, {"examples", std::move(examples)}};
}

}  // namespace

std::string DeduplicateKey(const v1::CorpusSpec& resolved, const std::string& neighbor_key) {
  const v1::DeduplicateConfig& config = resolved.deduplicate();
  StageKey key("deduplicate", kFormatVersion);
  key.Add("neighbors", neighbor_key).Add("disabled", config.disabled());
  if (!config.disabled()) {
    key.Add("min_cosine", config.min_cosine()).Add("min_jaccard", config.min_jaccard());
  }
  return key.Hex();
}

absl::Status Deduplicate(const DocumentStore& documents, const StoredNeighbors& neighbors,
                         const v1::DeduplicateConfig& config, const StageAdvance& advance,
                         StageWriter* stage) {
  RETURN_IF_ERROR(advance(0, documents.size()));
  ASSIGN_OR_RETURN(const Duplicates duplicates, Find(documents, neighbors, config, advance));
  std::vector<uint8_t> keep(static_cast<size_t>(documents.size()), 1);
  for (const uint32_t i : duplicates.removed) keep[i] = 0;
  RETURN_IF_ERROR(stage->AddArray<uint8_t>("keep.npy", keep));
  return stage->AddText("duplicates.json", FormatJson(Describe(duplicates, documents)),
                        static_cast<int64_t>(duplicates.removed.size()));
}

}  // namespace braid
