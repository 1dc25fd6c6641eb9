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
#include "formats/tokenizer_json.h"
#include "formats/weight_files.h"
#include "inference/huggingface/config_json.h"
#include "inference/huggingface/file_tensor.h"
#include "inference/output_directory.h"
#include "model/config/parameter_layout.h"
#include "runs/checkpoint_directory.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";
// The dataset key of checkpoints that were not trained on a dataset of braid.
constexpr char kImported[] = "imported";

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status BadTensor(const fs::path& directory, const std::string& name,
                       const std::string& problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(directory.string(), ": tensor ", name, ": ", problem));
}

absl::Status CheckExpected(const fs::path& directory, const WeightFiles& weights,
                           const std::vector<ParameterSpec>& layout) {
  for (const ParameterSpec& spec : layout) {
    const FileTensor tensor = FileTensorOf(spec);
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

// Rotary tables, stored by old checkpoints; every program computes them.
bool IsRotaryTable(const std::string& name) { return absl::EndsWith(name, ".rotary_emb.inv_freq"); }

// The head of a tied model may be stored beside the embedding, which it must then equal.
absl::Status CheckTiedHead(const fs::path& directory, const WeightFiles& weights) {
  const TensorInfo &head = *weights.Find(kHead), &embedding = *weights.Find(kEmbedding);
  if (head.shape == embedding.shape) {
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes({kHead, DType::kF32, head.shape}));
    std::vector<float> a(bytes / sizeof(float)), b(a.size());
    RETURN_IF_ERROR(weights.Read(kHead, a));
    RETURN_IF_ERROR(weights.Read(kEmbedding, b));
    if (a == b) return absl::OkStatus();
  }
  return BadTensor(
      directory, kHead,
      absl::StrCat("differs from ", kEmbedding, ", but config.json says tie_word_embeddings"));
}

absl::Status CheckNothingElse(const fs::path& directory, const WeightFiles& weights,
                              const std::vector<ParameterSpec>& layout, bool tied) {
  std::set<std::string> expected;
  for (const ParameterSpec& spec : layout) expected.insert(FileTensorOf(spec).name);
  for (const std::string& name : weights.names()) {
    if (expected.contains(name) || IsRotaryTable(name)) continue;
    if (tied && name == kHead) {
      RETURN_IF_ERROR(CheckTiedHead(directory, weights));
      continue;
    }
    return BadTensor(directory, name,
                     absl::EndsWith(name, ".bias")
                         ? "biases are not supported"
                         : "not a tensor of the model that config.json describes");
  }
  return absl::OkStatus();
}

absl::Status ReadParameter(const WeightFiles& weights, const ParameterSpec& parameter,
                           std::span<float> values) {
  const FileTensor tensor = FileTensorOf(parameter);
  if (!tensor.transposed) return weights.Read(tensor.name, values);
  std::vector<float> in_file(values.size());
  RETURN_IF_ERROR(weights.Read(tensor.name, in_file));
  TransposeMatrices(in_file, tensor.shape.end()[-2], tensor.shape.end()[-1], values);
  return absl::OkStatus();
}

// Returns the bytes of the tokenizer as the checkpoint stores them.
absl::StatusOr<std::string> TokenizerOf(const v1::ImportRequest& request,
                                        const v1::ModelConfig& config) {
  const fs::path path = request.tokenizer().empty() ? request.source_dir() : request.tokenizer();
  const absl::StatusOr<TokenizerFile> file = ReadTokenizerFile(path, ReadFile);
  if (absl::IsNotFound(file.status())) {
    return absl::NotFoundError(
        absl::StrCat(path.string(),
                     ": found none of tokenizer.model, tokenizer.json and vocab.json; "
                     "name the tokenizer's file with --tokenizer"));
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Parse(file->bytes, file->path));
  if (tokenizer->vocab_size() == config.vocab_size()) return file->bytes;
  return absl::InvalidArgumentError(
      absl::StrCat(file->path.string(), ": got ", tokenizer->vocab_size(),
                   " pieces, expected vocab_size ", config.vocab_size(),
                   " of config.json; added tokens and padded embeddings are not supported"));
}

absl::Status WriteCheckpointOf(std::unique_ptr<LanguageModel> model,
                               const std::string& tokenizer_bytes, OutputDirectory& output) {
  const fs::path tokenizer = output.staging() / kTokenizerFile;
  RETURN_IF_ERROR(WriteFileAtomically(tokenizer, tokenizer_bytes));
  TrainingState state;
  state.upcycled = model->config().routing().num_experts() > 1;
  state.moments = {0, model->values().size()};
  state.m.assign(model->values().size(), 0.0f);
  state.v.assign(model->values().size(), 0.0f);
  state.model = std::move(model);
  RETURN_IF_ERROR(SaveState(state, output.staging(), kImported, tokenizer));
  return output.Publish(CheckpointPath(output.staging(), state.step));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> ReadHuggingFaceModel(const fs::path& directory) {
  const fs::path config_path = directory / "config.json";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(config_path));
  ASSIGN_OR_RETURN(const v1::ModelConfig config, ParseConfigJson(text, config_path));
  ASSIGN_OR_RETURN(const WeightFiles weights, WeightFiles::Open(directory));
  const std::vector<ParameterSpec> layout = ParameterLayout(config);
  RETURN_IF_ERROR(CheckExpected(directory, weights, layout));
  RETURN_IF_ERROR(CheckNothingElse(directory, weights, layout, config.tie_embeddings()));
  ASSIGN_OR_RETURN(auto model, LanguageModel::Create(config, /*seed=*/0));
  for (const ParameterSpec& spec : layout) {
    RETURN_IF_ERROR(ReadParameter(weights, spec, model->values().subspan(spec.offset, spec.size)));
  }
  return model;
}

absl::StatusOr<v1::ImportResponse> Import(const v1::ImportRequest& request) {
  const OutputPlace place{request.output_dir(), request.force(), kManifestName};
  ASSIGN_OR_RETURN(const auto output, OutputDirectory::Create(place));
  ASSIGN_OR_RETURN(auto model, ReadHuggingFaceModel(request.source_dir()));
  ASSIGN_OR_RETURN(const std::string tokenizer, TokenizerOf(request, model->config()));
  v1::ImportResponse response;
  response.set_output_dir(output->path().string());
  *response.mutable_model() = model->config();
  response.set_num_parameters(static_cast<int64_t>(model->values().size()));
  RETURN_IF_ERROR(WriteCheckpointOf(std::move(model), tokenizer, *output));
  return response;
}

}  // namespace braid
