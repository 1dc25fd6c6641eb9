// An independent BERT encoder with pooling, as loops in double precision: the oracle of
// contriever_embedder_test.cc.
#ifndef BRAID_TESTS_RETRIEVAL_PLAIN_BERT_H_
#define BRAID_TESTS_RETRIEVAL_PLAIN_BERT_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "retrieval/contriever_config.h"
#include "retrieval/contriever_weights.h"

namespace braid {

class PlainBert {
 public:
  PlainBert(const ContrieverConfig& config, const ContrieverWeights& weights);

  // Returns the L2-normalized pooled last hidden states of one text. Requires ids below V.
  std::vector<double> Embed(std::span<const int32_t> ids, Pooling pooling = Pooling::kMean) const;

 private:
  using Rows = std::vector<std::vector<double>>;

  Rows Linear(const Rows& x, const std::string& stem) const;
  Rows LayerNorm(Rows x, const std::string& stem) const;
  Rows Attention(const Rows& x, const std::string& layer) const;

  const ContrieverConfig config_;
  std::map<std::string, std::vector<float>> values_;
};

}  // namespace braid

#endif  // BRAID_TESTS_RETRIEVAL_PLAIN_BERT_H_
