#include "pipeline/stages/domain_summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "pipeline/store/json_file.h"

namespace braid {
namespace {

constexpr size_t kDocumentsPerCheck = 1000;

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double Cosine(const Vector& a, const Vector& b) {
  const double norms = std::sqrt(Dot(a, a) * Dot(b, b));
  return norms > 0 ? Dot(a, b) / norms : 0;
}

// Returns the sum of the embeddings, each weighted by the tokens of its document. It has the
// direction of the weighted mean, and a cosine depends on the direction only.
absl::StatusOr<Vector> WeightedSum(const PackedDocuments& documents, std::span<const uint32_t> of,
                                   const std::function<absl::Status()>& keep_going) {
  Vector sum(static_cast<size_t>(documents.embeddings.d), 0.0);
  for (size_t i = 0; i < of.size(); ++i) {
    if (i % kDocumentsPerCheck == 0) RETURN_IF_ERROR(keep_going());
    const auto weight = static_cast<double>(documents.num_tokens(of[i]));
    const float* embedding = documents.embeddings.row(of[i]);
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += weight * embedding[j];
  }
  return sum;
}

void CountHeldoutSources(const PackedDocuments& documents,
                         std::vector<v1::DomainSummary>* summaries) {
  std::vector<std::pair<int32_t, std::string_view>> sources;  // with their domains
  for (const uint32_t document : documents.heldout) {
    sources.emplace_back(documents.domains.numbers[document], documents.source(document));
  }
  std::ranges::sort(sources);
  const auto repeated = std::ranges::unique(sources);
  sources.erase(repeated.begin(), repeated.end());
  for (const auto& [domain, source] : sources) {
    v1::DomainSummary& summary = (*summaries)[static_cast<size_t>(domain)];
    summary.set_num_heldout_sources(summary.num_heldout_sources() + 1);
  }
}

std::vector<v1::DomainSummary> CountDomains(const PackedDocuments& documents) {
  std::vector<v1::DomainSummary> summaries(documents.domains.names.size());
  for (size_t i = 0; i < summaries.size(); ++i) summaries[i].set_name(documents.domains.names[i]);
  const auto summary_of = [&](uint32_t document) -> v1::DomainSummary& {
    return summaries[static_cast<size_t>(documents.domains.numbers[document])];
  };
  for (const uint32_t document : documents.training) {
    v1::DomainSummary& summary = summary_of(document);
    summary.set_num_documents(summary.num_documents() + 1);
    summary.set_num_tokens(summary.num_tokens() + documents.num_tokens(document));
  }
  for (const uint32_t document : documents.heldout) {
    v1::DomainSummary& summary = summary_of(document);
    summary.set_num_heldout_documents(summary.num_heldout_documents() + 1);
    summary.set_num_heldout_tokens(summary.num_heldout_tokens() + documents.num_tokens(document));
  }
  CountHeldoutSources(documents, &summaries);
  return summaries;
}

}  // namespace

absl::StatusOr<std::vector<v1::DomainSummary>> SummarizeDomains(
    const PackedDocuments& documents, const std::function<absl::Status()>& keep_going) {
  std::vector<uint32_t> by_domain(documents.training.begin(), documents.training.end());
  std::ranges::sort(by_domain, {}, [&](uint32_t document) {
    return std::tuple(documents.domains.numbers[document], document);
  });
  ASSIGN_OR_RETURN(const Vector all, WeightedSum(documents, by_domain, keep_going));
  std::vector<v1::DomainSummary> summaries = CountDomains(documents);
  std::span<const uint32_t> left = by_domain;
  for (v1::DomainSummary& summary : summaries) {
    const auto count = static_cast<size_t>(summary.num_documents());
    ASSIGN_OR_RETURN(const Vector own, WeightedSum(documents, left.first(count), keep_going));
    summary.set_similarity(Cosine(own, all));
    left = left.subspan(count);
  }
  return summaries;
}

std::string DomainSummariesJson(std::span<const v1::DomainSummary> summaries) {
  nlohmann::json list = nlohmann::json::array();
  for (const v1::DomainSummary& summary : summaries) {
    list.push_back({{"name", summary.name()},
                    {"num_documents", summary.num_documents()},
                    {"num_tokens", summary.num_tokens()},
                    {"num_heldout_documents", summary.num_heldout_documents()},
                    {"num_heldout_tokens", summary.num_heldout_tokens()},
                    {"num_heldout_sources", summary.num_heldout_sources()},
                    {"similarity", summary.similarity()}});
  }
  return FormatJson(list);
}

absl::StatusOr<std::vector<v1::DomainSummary>> ReadDomainSummaries(
    const std::filesystem::path& dataset) {
  const std::filesystem::path path = dataset / kDomainSummariesName;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<v1::DomainSummary> summaries;
  try {
    for (const nlohmann::json& domain : nlohmann::json::parse(text)) {
      v1::DomainSummary& summary = summaries.emplace_back();
      summary.set_name(domain.at("name").get<std::string>());
      summary.set_num_documents(domain.at("num_documents").get<int64_t>());
      summary.set_num_tokens(domain.at("num_tokens").get<int64_t>());
      summary.set_num_heldout_documents(domain.at("num_heldout_documents").get<int64_t>());
      summary.set_num_heldout_tokens(domain.at("num_heldout_tokens").get<int64_t>());
      summary.set_num_heldout_sources(domain.at("num_heldout_sources").get<int64_t>());
      summary.set_similarity(domain.at("similarity").get<double>());
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(
        absl::StrCat(path.string(), ": expected a list of domains: ", error.what()));
  }
  return summaries;
}

std::vector<v1::DomainSummary> LargestDomains(std::vector<v1::DomainSummary> summaries,
                                              size_t count) {
  if (summaries.size() <= count) return summaries;
  std::ranges::stable_sort(summaries, std::ranges::greater(), &v1::DomainSummary::num_tokens);
  summaries.resize(count);
  std::ranges::sort(summaries, {}, &v1::DomainSummary::name);
  return summaries;
}

}  // namespace braid
