// How much each domain is like the training data as a whole, from the embeddings that ordered it:
// known before any run, so that no result can choose what counts as a distinct domain.
#ifndef BRAID_CLI_REPRODUCE_DOMAIN_PROFILE_H_
#define BRAID_CLI_REPRODUCE_DOMAIN_PROFILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/reproduce/contrasts.h"

namespace braid {

// Training documents, in any order.
struct EmbeddedDocuments {
  // [documents, dimension], row-major.
  std::span<const float> embeddings;
  int32_t dimension = 0;
  // Index into the names, and tokens, of each document.
  std::span<const int32_t> domains;
  std::span<const int64_t> num_tokens;
};

// One profile a name, in order of names. DomainProfile.similarity is the cosine of the
// token-weighted mean embedding of the domain and that of all documents; 0 for a domain without
// documents or of zero vectors. Requires matching sizes and domains below names.size().
std::vector<DomainProfile> ProfileDomains(const EmbeddedDocuments& documents,
                                          const std::vector<std::string>& names);

}  // namespace braid

#endif  // BRAID_CLI_REPRODUCE_DOMAIN_PROFILE_H_
