#include "retrieval/neighbor_settings.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

constexpr int64_t kMaxExactDocuments = 100'000;
constexpr int64_t kMaxUncompressedDocuments = 20'000'000;
constexpr int64_t kMaxLists = 10'000'000;
constexpr int32_t kNeighborSettingsMaxNeighbors = 10'000;

absl::Status CheckPositive(const char* field, int64_t got) {
  if (got > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("neighbors.", field, ": got ", got, ", expected at least 1"));
}

bool IsAutomatic(const v1::NeighborConfig& config) {
  return config.index().empty() || config.index() == "auto";
}

}  // namespace

absl::StatusOr<NeighborSettings> NeighborSettings::Resolve(const v1::NeighborConfig& asked,
                                                           int64_t n, int32_t d) {
  v1::NeighborConfig config = asked;
  FillStatedDefaults(&config);
  RETURN_IF_ERROR(CheckPositive("k", config.k()));
  RETURN_IF_ERROR(CheckPositive("recall_sample", config.recall_sample()));
  if (config.has_nprobe()) RETURN_IF_ERROR(CheckPositive("nprobe", config.nprobe()));
  if (config.k() > kNeighborSettingsMaxNeighbors) {
    return absl::InvalidArgumentError(absl::StrCat(
        "neighbors.k: got ", config.k(), ", expected at most ", kNeighborSettingsMaxNeighbors));
  }
  return NeighborSettings{.k = config.k(),
                          .recall_sample = config.recall_sample(),
                          .index = IsAutomatic(config)
                                       ? AutomaticIndex(n, d, !config.addresses().empty())
                                       : config.index(),
                          .num_probes = config.nprobe()};
}

bool DependsOnSharding(const v1::NeighborConfig& config, int64_t n) {
  return IsAutomatic(config) && !config.addresses().empty() && n > kMaxUncompressedDocuments;
}

std::string AutomaticIndex(int64_t n, int32_t d, bool sharded) {
  if (n <= kMaxExactDocuments) return kExactIndex;
  const auto num_lists = static_cast<int64_t>(4 * std::sqrt(static_cast<double>(n)));
  if (sharded || n <= kMaxUncompressedDocuments) return absl::StrCat("IVF", num_lists, ",Flat");
  // Uses one byte for eight dimensions; the sub-vectors must divide d evenly.
  int32_t code_bytes = std::max(1, d / 8);
  while (d % code_bytes != 0) --code_bytes;
  return absl::StrCat("IVF", num_lists, ",PQ", code_bytes);
}

std::optional<int64_t> PlainListsOf(const std::string& index) {
  absl::string_view digits = index;
  int64_t num_lists = 0;
  if (!absl::ConsumePrefix(&digits, "IVF") || !absl::ConsumeSuffix(&digits, ",Flat") ||
      !absl::SimpleAtoi(digits, &num_lists) || num_lists < 1 || num_lists > kMaxLists) {
    return std::nullopt;
  }
  return num_lists;
}

}  // namespace braid
