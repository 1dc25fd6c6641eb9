#include "cli/reproduce/domain_profile.h"

#include <cmath>
#include <numeric>

#include "formats/check.h"

namespace braid {
namespace {

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double Cosine(const Vector& a, const Vector& b) {
  const double norms = std::sqrt(Dot(a, a) * Dot(b, b));
  return norms > 0 ? Dot(a, b) / norms : 0;
}

// Sums have the direction of means, which is all that a cosine sees.
void AddWeighted(std::span<const float> embedding, double weight, Vector* sum) {
  for (size_t i = 0; i < embedding.size(); ++i) (*sum)[i] += weight * embedding[i];
}

}  // namespace

std::vector<DomainProfile> ProfileDomains(const EmbeddedDocuments& documents,
                                          const std::vector<std::string>& names) {
  const size_t count = documents.domains.size();
  const size_t dimension = static_cast<size_t>(documents.dimension);
  BRAID_CHECK(documents.num_tokens.size() == count) << documents.num_tokens.size() << " " << count;
  BRAID_CHECK(documents.embeddings.size() == count * dimension) << documents.embeddings.size();
  std::vector<DomainProfile> profiles;
  for (const std::string& name : names) profiles.push_back({.name = name});
  std::vector<Vector> sums(names.size(), Vector(dimension, 0.0));
  for (size_t i = 0; i < count; ++i) {
    const size_t domain = static_cast<size_t>(documents.domains[i]);
    BRAID_CHECK(domain < names.size()) << domain;
    profiles[domain].num_tokens += documents.num_tokens[i];
    AddWeighted(documents.embeddings.subspan(i * dimension, dimension),
                static_cast<double>(documents.num_tokens[i]), &sums[domain]);
  }
  Vector all(dimension, 0.0);
  for (const Vector& sum : sums) {
    for (size_t i = 0; i < dimension; ++i) all[i] += sum[i];
  }
  for (size_t d = 0; d < names.size(); ++d) profiles[d].similarity = Cosine(sums[d], all);
  return profiles;
}

}  // namespace braid
