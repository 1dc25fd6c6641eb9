#include "pipeline/ordering/ordering_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "pipeline/ordering/random_permutation.h"

namespace braid {
namespace {

// A running mean.
class Mean {
 public:
  void Add(double value) { sum_ += value, ++count_; }
  double value() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

// Computes the cosine of the embeddings of two documents; 0 for a zero row and without embeddings.
class CosineOf {
 public:
  CosineOf(std::span<const float> embeddings, int32_t dimension)
      : embeddings_(embeddings), dimension_(dimension) {}

  double operator()(uint32_t a, uint32_t b) const {
    const std::span<const float> x = Row(a), y = Row(b);
    float xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      xy += x[i] * y[i];
      xx += x[i] * x[i];
      yy += y[i] * y[i];
    }
    return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(double{xx} * double{yy});
  }

 private:
  std::span<const float> Row(uint32_t document) const {
    const size_t begin = size_t{document} * dimension_;
    BRAID_CHECK(begin + dimension_ <= embeddings_.size()) << "no embedding of " << document;
    return embeddings_.subspan(begin, dimension_);
  }

  std::span<const float> embeddings_;
  size_t dimension_;
};

using KeepGoing = std::function<absl::Status()>;
constexpr size_t kPairsPerCheck = 4096;

absl::StatusOr<double> AdjacentCosine(std::span<const uint32_t> order, const CosineOf& cosine,
                                      const KeepGoing& keep_going) {
  Mean mean;
  for (size_t i = 1; i < order.size(); ++i) {
    if (i % kPairsPerCheck == 0) RETURN_IF_ERROR(keep_going());
    mean.Add(cosine(order[i - 1], order[i]));
  }
  return mean.value();
}

std::vector<uint32_t> Shuffled(std::span<const uint32_t> documents, uint64_t seed) {
  std::vector<uint32_t> shuffled;
  for (uint32_t i : RandomPermutation(static_cast<int64_t>(documents.size()), seed)) {
    shuffled.push_back(documents[i]);
  }
  return shuffled;
}

absl::Status MeasureInstances(std::span<const ProvenanceSpan> spans, const CosineOf& cosine,
                              const KeepGoing& keep_going, OrderingReport* report) {
  Mean within, across;
  for (size_t i = 1; i < spans.size(); ++i) {
    if (i % kPairsPerCheck == 0) RETURN_IF_ERROR(keep_going());
    Mean& mean = spans[i - 1].instance == spans[i].instance ? within : across;
    mean.Add(cosine(spans[i - 1].document, spans[i].document));
  }
  report->adjacent_cosine_within_instances = within.value();
  report->adjacent_cosine_across_instances = across.value();
  return absl::OkStatus();
}

void MeasurePaths(const DocumentOrder& order, OrderingReport* report) {
  if (order.path_starts.empty()) return;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < order.path_starts.size(); ++i) {
    const bool last = i + 1 == order.path_starts.size();
    const size_t end = last ? order.order.size() : order.path_starts[i + 1];
    lengths.push_back(static_cast<int64_t>(end) - order.path_starts[i]);
  }
  std::sort(lengths.begin(), lengths.end());
  const size_t middle = lengths.size() / 2;
  const bool odd = lengths.size() % 2 == 1;
  report->restarts = static_cast<int64_t>(lengths.size()) - 1;
  report->mean_path_length =
      static_cast<double>(order.order.size()) / static_cast<double>(lengths.size());
  report->median_path_length = odd ? static_cast<double>(lengths[middle])
                                   : static_cast<double>(lengths[middle - 1] + lengths[middle]) / 2;
  report->max_path_length = lengths.back();
}

// Accumulates, instance by instance, the share of tokens in the majority domain of their instance.
class Purity {
 public:
  explicit Purity(std::span<const int32_t> domains) : domains_(domains) {
    int32_t max_domain = 0;
    for (int32_t domain : domains) max_domain = std::max(max_domain, domain);
    tokens_.resize(size_t(max_domain) + 1);
  }

  void Add(uint32_t document, int64_t num_tokens) {
    BRAID_CHECK(document < domains_.size()) << "no domain of document " << document;
    BRAID_CHECK(domains_[document] >= 0) << "domain " << domains_[document] << " of " << document;
    const auto domain = static_cast<size_t>(domains_[document]);
    if (tokens_[domain] == 0) present_.push_back(domain);
    tokens_[domain] += num_tokens;
    total_ += num_tokens;
  }

  void EndInstance() {
    int64_t most = 0;
    for (size_t domain : present_) most = std::max(most, std::exchange(tokens_[domain], 0));
    majority_ += most;
    present_.clear();
  }

  double value() const {
    return total_ == 0 ? 0 : static_cast<double>(majority_) / static_cast<double>(total_);
  }

 private:
  std::span<const int32_t> domains_;
  std::vector<int64_t> tokens_;  // for the current instance, by domain
  std::vector<size_t> present_;  // domains with tokens in the current instance
  int64_t majority_ = 0;
  int64_t total_ = 0;
};

double DomainPurity(std::span<const ProvenanceSpan> spans, std::span<const int32_t> domains) {
  Purity purity(domains);
  for (size_t i = 0; i < spans.size(); ++i) {
    if (i > 0 && spans[i].instance != spans[i - 1].instance) purity.EndInstance();
    purity.Add(spans[i].document, spans[i].length);
  }
  purity.EndInstance();
  return purity.value();
}

// Returns the number of tokens of each document, EOS included.
std::vector<int64_t> DocumentTokens(std::span<const ProvenanceSpan> spans, size_t num_documents) {
  std::vector<int64_t> tokens(num_documents, 0);
  for (const ProvenanceSpan& span : spans) {
    BRAID_CHECK(span.document < num_documents) << "no domain of document " << span.document;
    tokens[span.document] += span.length;
  }
  return tokens;
}

// Returns the mean cosine of consecutive documents that would share an instance if the documents
// were packed in this order.
absl::StatusOr<double> PackedCosine(std::span<const uint32_t> order,
                                    std::span<const int64_t> document_tokens,
                                    int64_t instance_tokens, const CosineOf& cosine,
                                    const KeepGoing& keep_going) {
  Mean mean;
  int64_t position = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i % kPairsPerCheck == 0) RETURN_IF_ERROR(keep_going());
    BRAID_CHECK(order[i] < document_tokens.size()) << "no tokens of document " << order[i];
    if (i > 0 && position % instance_tokens != 0) mean.Add(cosine(order[i - 1], order[i]));
    position += document_tokens[order[i]];
  }
  return mean.value();
}

// Returns the domain purity that packing the documents in this order would give.
double PackedPurity(std::span<const uint32_t> order, std::span<const int64_t> document_tokens,
                    std::span<const int32_t> domains, int64_t instance_tokens) {
  Purity purity(domains);
  int64_t room = instance_tokens;
  for (uint32_t document : order) {
    BRAID_CHECK(document < document_tokens.size()) << "no domain of document " << document;
    for (int64_t left = document_tokens[document]; left > 0;) {
      const int64_t taken = std::min(left, room);
      purity.Add(document, taken);
      left -= taken;
      room -= taken;
      if (room > 0) continue;
      purity.EndInstance();
      room = instance_tokens;
    }
  }
  purity.EndInstance();
  return purity.value();
}

}  // namespace

absl::StatusOr<OrderingReport> MeasureOrdering(const OrderingReportInput& input,
                                               const KeepGoing& keep_going) {
  const CosineOf cosine(input.embeddings, input.dimension);
  const std::vector<uint32_t> random = Shuffled(input.order.order, input.seed);
  OrderingReport report;
  report.order = input.order_name;
  report.num_documents = static_cast<int64_t>(input.order.order.size());
  ASSIGN_OR_RETURN(report.adjacent_cosine, AdjacentCosine(input.order.order, cosine, keep_going));
  ASSIGN_OR_RETURN(report.random_adjacent_cosine, AdjacentCosine(random, cosine, keep_going));
  RETURN_IF_ERROR(MeasureInstances(input.spans, cosine, keep_going, &report));
  MeasurePaths(input.order, &report);
  const int64_t instance_tokens = int64_t{input.sequence_length} + 1;
  if (!input.spans.empty()) {
    const uint32_t most = random.empty() ? 0 : *std::ranges::max_element(random);
    const std::vector<int64_t> tokens =
        DocumentTokens(input.spans, std::max<size_t>(input.domains.size(), size_t{most} + 1));
    ASSIGN_OR_RETURN(report.random_adjacent_cosine_within_instances,
                     PackedCosine(random, tokens, instance_tokens, cosine, keep_going));
    if (!input.domains.empty()) {
      report.domain_purity = DomainPurity(input.spans, input.domains);
      report.random_domain_purity = PackedPurity(random, tokens, input.domains, instance_tokens);
    }
  }
  report.recall_at_k = input.recall_at_k;
  report.k = input.k;
  return report;
}

std::string ToJson(const OrderingReport& report) {
  const nlohmann::ordered_json json = {
      {"order", report.order},
      {"num_documents", report.num_documents},
      {"adjacent_cosine", report.adjacent_cosine},
      {"random_adjacent_cosine", report.random_adjacent_cosine},
      {"adjacent_cosine_within_instances", report.adjacent_cosine_within_instances},
      {"random_adjacent_cosine_within_instances", report.random_adjacent_cosine_within_instances},
      {"adjacent_cosine_across_instances", report.adjacent_cosine_across_instances},
      {"restarts", report.restarts},
      {"mean_path_length", report.mean_path_length},
      {"median_path_length", report.median_path_length},
      {"max_path_length", report.max_path_length},
      {"domain_purity", report.domain_purity},
      {"random_domain_purity", report.random_domain_purity},
      {"recall_at_k", report.recall_at_k},
      {"k", report.k}};
  return json.dump(2) + "\n";
}

}  // namespace braid
