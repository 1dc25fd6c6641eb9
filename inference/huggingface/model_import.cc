#include "inference/huggingface/model_import.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_file.h"
#include "formats/weight_files.h"
#include "inference/huggingface/adapter_files.h"
#include "inference/huggingface/config_json.h"
#include "inference/huggingface/file_tensor.h"
#include "inference/huggingface/imported_checkpoint.h"
#include "inference/huggingface/tokenizer_settings.h"
#include "inference/output_directory.h"
#include "inference/replaceable_output.h"
#include "model/config/family_config.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "runs/start_token.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kHead[] = "lm_head.weight";
// Elements that are compared at a time.
constexpr size_t kComparedElements = size_t{1} << 20;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status BadTensor(const fs::path& directory, const std::string& name,
                       const std::string& problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(directory.string(), ": tensor ", name, ": ", problem));
}

absl::Status CheckExpected(const fs::path& directory, const WeightFiles& weights,
                           const std::vector<FileTensor>& tensors) {
  for (const FileTensor& tensor : tensors) {
    const TensorInfo* found = weights.Find(tensor.name);
    if (found == nullptr) {
      return BadTensor(directory, tensor.name,
                       absl::StrCat("missing, expected shape ", ShapeText(tensor.shape)));
    }
    if (found->shape != tensor.shape) {
      return BadTensor(directory, tensor.name,
                       absl::StrCat("got shape ", ShapeText(found->shape), ", expected ",
                                    ShapeText(tensor.shape), " by config.json"));
    }
  }
  return absl::OkStatus();
}

// Rotary tables and causal masks, stored by old checkpoints; every program computes them.
bool IsBuffer(const std::string& name) {
  return absl::EndsWith(name, ".rotary_emb.inv_freq") || absl::EndsWith(name, ".attn.bias") ||
         absl::EndsWith(name, ".attn.masked_bias");
}

absl::StatusOr<bool> SameValues(const WeightFiles& weights, const TensorInfo& a,
                                const TensorInfo& b) {
  if (a.shape != b.shape) return false;
  size_t size = 1;
  for (const int64_t extent : a.shape) size *= static_cast<size_t>(extent);
  for (size_t first = 0; first < size; first += kComparedElements) {
    std::vector<float> x(std::min(kComparedElements, size - first)), y(x.size());
    RETURN_IF_ERROR(weights.ReadRange(a.name, first, x));
    RETURN_IF_ERROR(weights.ReadRange(b.name, first, y));
    if (x != y) return false;
  }
  return true;
}

// The head of a tied model may be stored beside the embedding, which it must then equal.
absl::Status CheckTiedHead(const fs::path& directory, const WeightFiles& weights,
                           const std::string& embedding) {
  ASSIGN_OR_RETURN(const bool same,
                   SameValues(weights, *weights.Find(kHead), *weights.Find(embedding)));
  if (same) return absl::OkStatus();
  return BadTensor(
      directory, kHead,
      absl::StrCat("differs from ", embedding,
                   ", expected the same values, as tie_word_embeddings is true in config.json"));
}

absl::Status CheckNothingElse(const fs::path& directory, const WeightFiles& weights,
                              const std::vector<FileTensor>& tensors, bool tied) {
  std::set<std::string> expected;
  for (const FileTensor& tensor : tensors) expected.insert(tensor.name);
  for (const std::string& name : weights.names()) {
    if (expected.contains(name) || IsBuffer(name)) continue;
    if (tied && name == kHead) {
      RETURN_IF_ERROR(CheckTiedHead(directory, weights, tensors.front().name));
      continue;
    }
    return BadTensor(directory, name,
                     absl::EndsWith(name, ".bias")
                         ? "only the biases of q, k and v of a qwen2 are supported"
                         : "not a tensor of the model that config.json describes");
  }
  return absl::OkStatus();
}

// Returns the tokenizer as the checkpoint stores it, and sets the model's start token
// and chat template.
absl::StatusOr<std::string> TokenizerOf(const v1::ImportRequest& request, v1::ModelConfig* config) {
  const fs::path path = request.tokenizer().empty() ? request.source_dir() : request.tokenizer();
  ASSIGN_OR_RETURN(const TokenizerFile file, ReadTokenizerFile(path, ReadFile));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Parse(file));
  if (tokenizer->vocab_size() > config->vocab_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path.string(), ": got ", tokenizer->vocab_size(),
                     " pieces, expected at most vocab_size ", config->vocab_size(),
                     " of config.json; resize the embeddings or name the model's own tokenizer "
                     "with --tokenizer"));
  }
  // That of a GPT2 is in config.json: its tokenizer's settings are the same for every model.
  if (!IsGpt2(*config)) {
    ASSIGN_OR_RETURN(const v1::StartToken start, StartTokenOf(file, *tokenizer));
    config->set_start_token(start);
  }
  ASSIGN_OR_RETURN(const FoundChatTemplate chat,
                   ChatTemplateOf(file, *tokenizer, StartTokenId(*config, *tokenizer)));
  config->set_chat_template(chat.name);
  config->set_unknown_chat_template(chat.unknown);
  ASSIGN_OR_RETURN(*config, ResolveModelConfig(*config));
  return file.bytes;
}

absl::StatusOr<v1::ModelConfig> ReadConfigJson(const fs::path& directory) {
  const fs::path path = directory / "config.json";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseConfigJson(text, path);
}

}  // namespace

absl::StatusOr<v1::ImportResponse> Import(const v1::ImportRequest& request) {
  if (!request.base().empty()) return ImportAdapter(request);
  const OutputPlace place{request.output_dir(), request.force(), CheckHoldsOnlyACheckpoint};
  ASSIGN_OR_RETURN(const auto output, OutputDirectory::Create(place));
  const fs::path source = request.source_dir();
  ASSIGN_OR_RETURN(v1::ModelConfig config, ReadConfigJson(source));
  ASSIGN_OR_RETURN(const WeightFiles weights, WeightFiles::Open(source));
  const std::vector<ParameterSpec> layout = ParameterLayout(config);
  const std::vector<FileTensor> tensors = FileTensorsOf(config, layout, HasBareNames(weights));
  RETURN_IF_ERROR(CheckExpected(source, weights, tensors));
  RETURN_IF_ERROR(CheckNothingElse(source, weights, tensors, config.tie_embeddings()));
  ASSIGN_OR_RETURN(const std::string tokenizer, TokenizerOf(request, &config));
  RETURN_IF_ERROR(WriteImportedCheckpoint(weights, config, tokenizer, output->staging()));
  RETURN_IF_ERROR(output->Publish(output->staging()));
  v1::ImportResponse response;
  response.set_output_dir(output->path().string());
  *response.mutable_model() = config;
  response.set_num_parameters(layout.back().offset + layout.back().size);
  return response;
}

}  // namespace braid
