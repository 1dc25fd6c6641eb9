#include "retrieval/contriever_directory.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// Must be incremented with every change of the code that changes vectors.
constexpr int kVersion = 1;
constexpr int32_t kFewestTokens = 3;  // [CLS], a piece, [SEP]

absl::StatusOr<int32_t> ResolveMaxTokens(int32_t max_tokens, const ContrieverConfig& config,
                                         const SentenceModel& model,
                                         const std::filesystem::path& directory) {
  if (max_tokens == 0) {
    return std::min(config.max_position_embeddings,
                    model.max_tokens.value_or(config.max_position_embeddings));
  }
  if (max_tokens >= kFewestTokens && max_tokens <= config.max_position_embeddings) {
    return max_tokens;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "max_tokens: got ", max_tokens, ", expected ", kFewestTokens, " to ",
      config.max_position_embeddings, ", the positions of the model in ", directory.string()));
}

const char* NameOf(Pooling pooling) {
  constexpr const char* kNames[] = {"mean", "cls", "lasttoken"};
  return kNames[static_cast<size_t>(pooling)];
}

}  // namespace

absl::StatusOr<ContrieverDirectory> ContrieverDirectory::Open(
    const std::filesystem::path& directory, int32_t max_tokens,
    const std::optional<std::string>& prefix) {
  ASSIGN_OR_RETURN(SentenceModel model, ReadSentenceModel(directory));
  ASSIGN_OR_RETURN(const ContrieverConfig config, ReadContrieverConfig(model.encoder));
  ASSIGN_OR_RETURN(const int32_t resolved, ResolveMaxTokens(max_tokens, config, model, directory));
  if (model.dimension.value_or(config.hidden_size) != config.hidden_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory.string(), ": pooling: word_embedding_dimension: got ", *model.dimension,
        ", expected ", config.hidden_size, ", hidden_size of config.json"));
  }
  ASSIGN_OR_RETURN(WordPieceTokenizer tokenizer, WordPieceTokenizer::Load(model.encoder));
  if (tokenizer.vocabulary().size() > config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory.string(), ": the tokenizer has ", tokenizer.vocabulary().size(),
        " pieces, expected at most ", config.vocab_size, ", vocab_size of config.json"));
  }
  ASSIGN_OR_RETURN(ContrieverWeights weights, ContrieverWeights::Open(model.encoder, config));
  return ContrieverDirectory{config,   std::move(tokenizer), std::move(weights),
                             resolved, model.pooling,        prefix.value_or(model.prefix)};
}

absl::StatusOr<std::string> ContrieverDirectory::Fingerprint() const {
  ASSIGN_OR_RETURN(const std::string digest, weights.Digest());
  // The digest of the weights includes their shapes.
  const std::string settings =
      absl::StrCat("version=", kVersion, " weights=", digest, " ", tokenizer.Settings(),
                   " heads=", config.num_attention_heads,
                   " epsilon=", absl::StrFormat("%.17g", config.layer_norm_eps),
                   " max_tokens=", max_tokens, " pooling=", NameOf(pooling), " norm=l2",
                   prefix.empty() ? "" : absl::StrCat(" prefix=", prefix));
  const XXH128_hash_t hash = XXH3_128bits(settings.data(), settings.size());
  return absl::StrFormat("contriever-%016x%016x", hash.high64, hash.low64);
}

}  // namespace braid
