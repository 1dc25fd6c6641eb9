#include "inference/huggingface/model_export.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "formats/sentencepiece_json.h"
#include "formats/sentencepiece_settings.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_file.h"
#include "formats/weight_files.h"
#include "inference/huggingface/adapter_files.h"
#include "inference/huggingface/baked_weights.h"
#include "inference/huggingface/chat_jinja.h"
#include "inference/huggingface/config_json.h"
#include "inference/huggingface/exported_files.h"
#include "inference/huggingface/exported_layout.h"
#include "inference/huggingface/file_tensor.h"
#include "inference/huggingface/merge_check.h"
#include "inference/huggingface/modeling_braid.h"
#include "inference/huggingface/tokenizer_settings.h"
#include "inference/model_conversion.h"
#include "inference/output_directory.h"
#include "inference/prompt.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/mixtral.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "runs/model_path.h"
#include "runs/start_token.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr char kTokenizerJsonFile[] = "tokenizer.json";

// The model to write: a configuration and the values of its parameters.
struct Source {
  v1::ModelConfig config;
  // Returns the values of a parameter by name, valid until the next call.
  std::function<absl::StatusOr<std::span<const float>>(const std::string&)> values;
};

// Settings of training and their parameters are left out, and tokens use as many experts as outside
// training.
Source PlainSource(LanguageModel& model) {
  std::map<std::string, std::span<const float>> values;
  for (const Parameter& p : model.parameters()) values[p.name] = p.value;
  v1::ModelConfig config = model.InferenceConfig();
  config.clear_dropout();
  config.clear_consistency_loss();
  config.clear_z_loss();
  return {config, [values](const std::string& name) -> absl::StatusOr<std::span<const float>> {
            return values.at(name);
          }};
}

// What a tensor of the file holds of a parameter.
struct ExportedPart {
  FileTensor tensor;
  std::string parameter;
};

// Returns the values of the parts of a tensor one after the other; `joined` is used as storage if
// there are several.
absl::StatusOr<std::span<const float>> PartValues(const Source& source,
                                                  const std::vector<ExportedPart>& parts,
                                                  std::vector<float>* joined) {
  std::span<const float> values;
  joined->clear();
  for (const auto& [tensor, parameter] : parts) {
    ASSIGN_OR_RETURN(values, source.values(parameter));
    values = values.subspan(static_cast<size_t>(tensor.first), static_cast<size_t>(tensor.size));
    if (parts.size() == 1) return values;
    BRAID_CHECK(std::ssize(*joined) == tensor.place) << parameter;
    joined->insert(joined->end(), values.begin(), values.end());
  }
  return *joined;
}

// Returns the values of a tensor as in the file; `joined` and `transposed` are used as storage if
// needed.
absl::StatusOr<std::span<const float>> FileValues(const Source& source,
                                                  const std::vector<ExportedPart>& parts,
                                                  std::vector<float>* joined,
                                                  std::vector<float>* transposed) {
  const FileTensor& tensor = parts.front().tensor;
  ASSIGN_OR_RETURN(const std::span<const float> values, PartValues(source, parts, joined));
  if (!tensor.transposed) return values;
  transposed->resize(values.size());
  TransposeMatrices(values, tensor.shape.end()[-1], tensor.shape.end()[-2], *transposed);
  return *transposed;
}

EndTokens EndsOf(const v1::ModelConfig& config, const Tokenizer& tokenizer) {
  return {.start_id = StartTokenId(config, tokenizer), .eos_id = tokenizer.eos_id()};
}

// Returns the token that ends an answer of the model's chat template.
absl::StatusOr<int32_t> EndOfTurn(const v1::ModelConfig& config, const Tokenizer& tokenizer) {
  if (config.chat_template().empty()) return tokenizer.eos_id();
  ASSIGN_OR_RETURN(const ChatTemplate chat, FindChatTemplate(config.chat_template()));
  return ChatMarkers(tokenizer, std::nullopt).EndOfTurn(chat);
}

std::string GenerationConfig(const EndTokens& ends, int32_t end_of_turn) {
  OrderedJson json = {{"_from_model_config", true}};
  if (ends.start_id.has_value()) json["bos_token_id"] = *ends.start_id;
  json["eos_token_id"] = ends.eos_id;
  if (end_of_turn != ends.eos_id) json["eos_token_id"] = {ends.eos_id, end_of_turn};
  return json.dump(2) + "\n";
}

// Returns the settings of a SentencePiece model; nullopt for another tokenizer.
absl::StatusOr<std::optional<SentencePieceSettings>> SettingsOf(std::string_view tokenizer_bytes) {
  if (tokenizer_bytes.starts_with('{')) return std::nullopt;
  return ReadSentencePieceSettings(tokenizer_bytes);
}

// The tokens that Python programs are to know.
OrderedJson NamedTokens(const Tokenizer& tokenizer, const EndTokens& ends,
                        const std::optional<SentencePieceSettings>& settings) {
  OrderedJson json;
  if (ends.start_id.has_value()) json["bos_token"] = tokenizer.Piece(*ends.start_id);
  json["eos_token"] = tokenizer.Piece(ends.eos_id);
  if (settings.has_value()) json["unk_token"] = tokenizer.Piece(settings->unknown_id);
  return json;
}

// `has_json`: there is a tokenizer.json, which the class reads as it is.
absl::StatusOr<std::string> TokenizerConfig(const Tokenizer& tokenizer, const EndTokens& ends,
                                            const std::optional<SentencePieceSettings>& settings,
                                            bool has_json, const v1::ModelConfig& config) {
  OrderedJson json = NamedTokens(tokenizer, ends, settings);
  json["tokenizer_class"] = has_json ? "PreTrainedTokenizerFast" : "LlamaTokenizer";
  json["add_bos_token"] = ends.start_id.has_value();
  json["add_eos_token"] = false;
  json["legacy"] = false;
  // Its default is true, also for a model that puts no space before a text.
  if (!has_json && settings.has_value()) json["add_prefix_space"] = settings->adds_dummy_space;
  json["clean_up_tokenization_spaces"] = false;
  json["model_max_length"] = config.sequence_length();
  if (!config.chat_template().empty()) {
    ASSIGN_OR_RETURN(const ChatTemplate chat, FindChatTemplate(config.chat_template()));
    json["chat_template"] = ChatJinja(chat, tokenizer, ends.start_id, /*writes_spaces=*/!has_json);
  }
  return json.dump(2) + "\n";
}

class Writer {
 public:
  Writer(const fs::path& directory, v1::ExportResponse* response)
      : directory_(directory), response_(response) {}

  absl::Status Text(const std::string& name, std::string_view text) {
    ASSIGN_OR_RETURN(auto file, AtomicFile::Create(directory_ / name));
    RETURN_IF_ERROR(file->Append(text));
    ASSIGN_OR_RETURN(const FileSummary summary, file->Commit());
    Add(summary);
    return absl::OkStatus();
  }

  absl::Status Weights(const Source& source, const ExportOptions& options) {
    std::map<std::string, std::vector<ExportedPart>> exported;  // by name
    std::vector<float> joined, transposed;
    WeightsToWrite weights;
    weights.max_file_bytes = options.max_shard_bytes;
    int64_t count = 0;
    for (const ParameterSpec& spec : ParameterLayout(source.config)) {
      for (const FileTensor& tensor : FileTensorsOf(source.config, spec)) {
        std::vector<ExportedPart>& parts = exported[tensor.name];
        if (parts.empty()) weights.tensors.push_back({tensor.name, options.dtype, tensor.shape});
        parts.push_back({tensor, spec.name});
      }
      count += spec.size;
    }
    weights.values = [&](const TensorInfo& tensor) {
      return FileValues(source, exported.at(tensor.name), &joined, &transposed);
    };
    ASSIGN_OR_RETURN(const std::vector<FileSummary> files, WriteWeightFiles(directory_, weights));
    for (const FileSummary& file : files) Add(file);
    response_->set_num_parameters(count);
    return absl::OkStatus();
  }

 private:
  void Add(const FileSummary& summary) {
    v1::ExportedFile* file = response_->add_files();
    file->set_name(summary.name);
    file->set_bytes(summary.bytes);
  }

  const fs::path directory_;
  v1::ExportResponse* response_;
};

absl::Status CheckVocabulary(const Tokenizer& tokenizer, const v1::ModelConfig& config,
                             const fs::path& path) {
  if (tokenizer.vocab_size() <= config.vocab_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path.string(), " has ", tokenizer.vocab_size(),
                                                 " pieces, expected at most the model's ",
                                                 config.vocab_size()));
}

absl::Status WriteAll(const Source& source, const fs::path& tokenizer_path,
                      const ExportOptions& options, const fs::path& directory,
                      v1::ExportResponse* response) {
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(tokenizer_path));
  RETURN_IF_ERROR(CheckVocabulary(*tokenizer, source.config, tokenizer_path));
  RETURN_IF_ERROR(CheckExportedLayout(source.config));
  ASSIGN_OR_RETURN(const std::string tokenizer_bytes, ReadFile(tokenizer_path));
  const EndTokens ends = EndsOf(source.config, *tokenizer);
  Writer writer(directory, response);
  RETURN_IF_ERROR(writer.Text("config.json", FormatConfigJson(source.config, options.dtype, ends)));
  ASSIGN_OR_RETURN(const int32_t end_of_turn, EndOfTurn(source.config, *tokenizer));
  if (!source.config.has_label_head()) {
    RETURN_IF_ERROR(writer.Text("generation_config.json", GenerationConfig(ends, end_of_turn)));
  }
  const bool mixed = source.config.has_layer_mixing();
  if (UsesExperts(source.config) && !IsMixtral(source.config) && !mixed) {
    RETURN_IF_ERROR(writer.Text(kModelingFile, ModelingBraid()));
    if (source.config.routing().router() == v1::TOKEN_CHOICE) {
      response->set_why_not_mixtral(WhyNotMixtral(source.config));
    }
  }
  RETURN_IF_ERROR(writer.Weights(source, options));
  const bool byte_level = tokenizer_bytes.starts_with('{');
  if (!byte_level) RETURN_IF_ERROR(writer.Text(kTokenizerFile, tokenizer_bytes));
  const absl::StatusOr<std::string> tokenizer_json =
      byte_level ? WithStartToken(ForOtherPrograms(tokenizer_bytes), *tokenizer, ends.start_id)
                 : SentencePieceJson(tokenizer_bytes, ends.start_id);
  // A model that the library cannot express is exported without the file.
  if (!tokenizer_json.ok() && !absl::IsUnimplemented(tokenizer_json.status())) {
    return tokenizer_json.status();
  }
  if (tokenizer_json.ok()) RETURN_IF_ERROR(writer.Text(kTokenizerJsonFile, *tokenizer_json));
  ASSIGN_OR_RETURN(const std::optional<SentencePieceSettings> settings,
                   SettingsOf(tokenizer_bytes));
  ASSIGN_OR_RETURN(const std::string tokenizer_config,
                   TokenizerConfig(*tokenizer, ends, settings, tokenizer_json.ok(), source.config));
  RETURN_IF_ERROR(writer.Text("tokenizer_config.json", tokenizer_config));
  return writer.Text("special_tokens_map.json",
                     NamedTokens(*tokenizer, ends, settings).dump(2) + "\n");
}

void AddRouting(const std::vector<ExpertMixture>& mixtures, v1::ExportResponse* response) {
  for (size_t layer = 0; layer < mixtures.size(); ++layer) {
    const std::vector<float>& down = mixtures[layer].down;
    if (down.empty()) continue;
    v1::LayerWeights* weights = response->add_routing();
    weights->set_layer(static_cast<int32_t>(layer));
    weights->mutable_weights()->Add(down.begin(), down.end());
  }
}

// `imported` is CheckpointState::source_dtype, the default.
absl::StatusOr<DType> DTypeOf(const std::string& name, const std::string& imported) {
  if (name.empty() && imported == DTypeName(DType::kBF16)) return DType::kBF16;
  if (name.empty() && imported == DTypeName(DType::kF16)) return DType::kF16;
  if (name.empty() || name == "float32") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  return absl::InvalidArgumentError(
      absl::StrCat("dtype: got \"", name, "\", expected float32, bfloat16 or float16"));
}

// An export leaves the home without its run, so that nothing in it shows which step it is.
bool StrictExport(const v1::ExportRequest& request) {
  return !request.has_strict() || request.strict();
}

absl::StatusOr<ExportOptions> OptionsOf(const v1::ExportRequest& request,
                                        const CheckpointState& state,
                                        const fs::path& tokenizer_path) {
  ExportOptions options;
  ASSIGN_OR_RETURN(options.dtype, DTypeOf(request.dtype(), state.source_dtype));
  if (request.max_shard_bytes() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_shard_bytes: got ", request.max_shard_bytes(), ", expected at least 1"));
  }
  if (request.max_shard_bytes() > 0) options.max_shard_bytes = request.max_shard_bytes();
  options.force = request.force();
  if (!request.has_bake_prompt()) return options;
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(tokenizer_path));
  options.bake_prompt = PromptTokens(state.model, *tokenizer, request.bake_prompt());
  return options;
}

absl::StatusOr<v1::ExportResponse> ExportAdapterOnly(const v1::ExportRequest& request,
                                                     const ModelPath& path) {
  if (request.has_bake_prompt() || !request.dtype().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("adapter: got ", request.has_bake_prompt() ? "bake_prompt" : "dtype",
                     " too, expected adapters alone, which are written as float32"));
  }
  RETURN_IF_ERROR(CheckExportedSoftCap(path.state.model));
  return ExportAdapter(path, request.force(), request.output_dir());
}

// A merge that is asked for needs adapters, and files to compare with them.
absl::Status CheckMergeable(const v1::ExportRequest& request, const ModelPath& path) {
  if (!request.merge()) return absl::OkStatus();
  if (request.adapter() || request.has_bake_prompt()) {
    return absl::InvalidArgumentError(absl::StrCat("merge: got ",
                                                   request.adapter() ? "adapter" : "bake_prompt",
                                                   " too, expected one of them"));
  }
  if (path.state.partial.finetuning().has_lora()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("merge: ", path.checkpoint.string(),
                   " holds no adapters to merge; export the model without --merge"));
}

// Loads the model to write. Where a run has split FFNs for its training, that is the dense model,
// unless the request says how many experts tokens use.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadToExport(const v1::ExportRequest& request,
                                                            ModelPath* path, double* join_seconds) {
  ASSIGN_OR_RETURN(const bool recomposed, IsRecomposed(*path));
  if (recomposed && !request.has_active_experts()) {
    return LoadRecomposed(path, StrictExport(request), join_seconds);
  }
  return LoadModel(path->checkpoint, path->state.use_average);
}

}  // namespace

absl::StatusOr<v1::ExportResponse> ExportModel(LanguageModel& model, const fs::path& tokenizer,
                                               const ExportOptions& options,
                                               const fs::path& output) {
  ASSIGN_OR_RETURN(const auto directory,
                   OutputDirectory::Create({output, options.force, CheckHoldsOnlyAnExport}));
  v1::ExportResponse response;
  Source source = PlainSource(model);
  std::optional<BakedWeights> baked;
  if (options.bake_prompt.has_value()) {
    ASSIGN_OR_RETURN(baked, BakedWeights::Create(model, *options.bake_prompt));
    source = {baked->config(), [&](const std::string& name) { return baked->Values(name); }};
    AddRouting(baked->mixtures(), &response);
  }
  RETURN_IF_ERROR(WriteAll(source, tokenizer, options, directory->staging(), &response));
  if (options.check) RETURN_IF_ERROR(options.check(directory->staging(), &response));
  RETURN_IF_ERROR(directory->Publish(directory->staging()));
  response.set_output_dir(directory->path().string());
  response.set_architecture(ArchitectureOf(source.config));
  response.set_unknown_chat_template(source.config.unknown_chat_template());
  return response;
}

absl::StatusOr<v1::ExportResponse> Export(const v1::ExportRequest& request) {
  SetModelThreads(request.num_threads());
  ASSIGN_OR_RETURN(ModelPath path, FindModel(request.model(), StrictExport(request)));
  RETURN_IF_ERROR(CheckMergeable(request, path));
  if (request.adapter() || request.has_bake_prompt()) {
    RETURN_IF_ERROR(CheckPlainLayers(path.state.model, "model",
                                     "neither adapters nor merged experts alone compute what the "
                                     "model does; export the whole model"));
  }
  if (request.adapter()) {
    ASSIGN_OR_RETURN(v1::ExportResponse response, ExportAdapterOnly(request, path));
    *response.mutable_source() = path.source;
    return response;
  }
  const fs::path tokenizer = path.checkpoint / kTokenizerFile;
  ASSIGN_OR_RETURN(ExportOptions options, OptionsOf(request, path.state, tokenizer));
  if (path.state.partial.finetuning().has_lora() && !request.has_bake_prompt()) {
    // Before the comparison, which would name another reason.
    ASSIGN_OR_RETURN(const bool recomposed, IsRecomposed(path));
    if (!recomposed) RETURN_IF_ERROR(CheckExportedLayout(path.state.model));
    ASSIGN_OR_RETURN(const MergeCheck check, MergeCheck::Create(path, options.dtype));
    options.check = [check](const fs::path& directory, v1::ExportResponse* response) {
      return check.Compare(directory, response);
    };
  }
  double join_seconds = 0;
  ASSIGN_OR_RETURN(const auto model, LoadToExport(request, &path, &join_seconds));
  if (request.has_active_experts()) {
    RETURN_IF_ERROR(
        CheckActiveExperts(path.state.model, "active_experts", request.active_experts()));
    RETURN_IF_ERROR(model->SetActiveExperts(request.active_experts()));
  }
  ASSIGN_OR_RETURN(v1::ExportResponse response,
                   ExportModel(*model, tokenizer, options, request.output_dir()));
  response.set_join_seconds(join_seconds);
  *response.mutable_source() = path.source;
  return response;
}

}  // namespace braid
