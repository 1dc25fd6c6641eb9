#include "retrieval/sentence_model.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr int kSentenceModelDeepestLevel = 8;
constexpr size_t kMaxPrefixBytes = 4096;

absl::Status ModuleError(const std::filesystem::path& path, const std::string& got,
                         const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": got ", got, ", expected ", expected));
}

// Returns the class of a module, which the file names by its Python path.
std::string ClassOf(const std::string& type) {
  constexpr std::string_view kPackage = "sentence_transformers.";
  if (!type.starts_with(kPackage)) return type;
  return type.substr(type.rfind('.') + 1);
}

// Returns whether a path stays within its directory.
bool IsWithin(const std::string& path) {
  const std::filesystem::path relative(path);
  if (relative.is_absolute() || path.find('\0') != std::string::npos) return false;
  for (const auto& part : relative) {
    if (part == "..") return false;
  }
  return true;
}

// Reads a file and passes it to `parse`, unless it does not exist and is not required.
absl::Status ReadInto(const std::filesystem::path& path, bool required, SentenceModel* model,
                      absl::Status (*parse)(std::string_view, const std::filesystem::path&,
                                            SentenceModel*)) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status()) && !required) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  return parse(*text, path, model);
}

}  // namespace

absl::StatusOr<SentenceModules> ParseSentenceModules(std::string_view text,
                                                     const std::filesystem::path& path) {
  const absl::StatusOr<Json> json = ParseStrictJson(text, kSentenceModelDeepestLevel);
  if (!json.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", json.status().message()));
  }
  constexpr const char* kOrder[] = {"Transformer", "Pooling", "Normalize"};
  constexpr char kExpected[] = "the modules Transformer, Pooling and, optionally, Normalize";
  if (!json->is_array()) return ModuleError(path, "no list", kExpected);
  std::vector<std::string> paths;
  for (const Json& module : *json) {
    if (!module.is_object()) return ModuleError(path, "a module that is not an object", kExpected);
    JsonFields fields(module, path.string());
    const std::string type = ClassOf(fields.Text("type", ""));
    const std::string folder = fields.Text("path", "");
    RETURN_IF_ERROR(fields.status());
    if (paths.size() >= std::size(kOrder) || type != kOrder[paths.size()]) {
      return ModuleError(
          path, absl::StrCat("module \"", type.substr(0, 60), "\" at place ", paths.size()),
          kExpected);
    }
    if (!IsWithin(folder)) {
      return ModuleError(path, absl::StrCat("path \"", folder.substr(0, 60), "\""),
                         "a path within the directory");
    }
    paths.push_back(folder);
  }
  if (paths.size() < 2) {
    return ModuleError(path, absl::StrCat(paths.size(), " modules"), kExpected);
  }
  return SentenceModules{.encoder = paths[0], .pooling = paths[1]};
}

namespace {

constexpr std::pair<const char*, Pooling> kPoolingModes[] = {
    {"mean", Pooling::kMean}, {"cls", Pooling::kClassify}, {"lasttoken", Pooling::kLastToken}};

// Reads the flags of sentence-transformers before version 6, one for each mode.
void ParsePoolingFlags(JsonFields* fields, SentenceModel* model) {
  int num_modes = 0;
  for (const auto& [mode, pooling] : kPoolingModes) {
    const std::string suffix = pooling == Pooling::kMean       ? "_tokens"
                               : pooling == Pooling::kClassify ? "_token"
                                                               : "";
    if (!fields->Flag(absl::StrCat("pooling_mode_", mode, suffix).c_str())) continue;
    model->pooling = pooling;
    ++num_modes;
  }
  for (const char* name : {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                           "pooling_mode_weightedmean_tokens"}) {
    fields->RequireOnly(name, false, " (supported: mean_tokens, cls_token, lasttoken)");
  }
  fields->Require(
      num_modes == 1, "pooling_mode_mean_tokens",
      absl::StrCat("exactly one of mean_tokens, cls_token and lasttoken to be true, not ",
                   num_modes));
}

}  // namespace

absl::Status ParsePooling(std::string_view text, const std::filesystem::path& path,
                          SentenceModel* model) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJsonObject(text, kSentenceModelDeepestLevel, path));
  JsonFields fields(json, path.string());
  const bool named = fields.Has("pooling_mode");
  if (named) {
    const std::string mode = fields.Text("pooling_mode", "");
    const auto found = std::ranges::find(
        kPoolingModes, mode, [](const auto& known) { return std::string_view(known.first); });
    fields.Require(found != std::end(kPoolingModes), "pooling_mode", "mean, cls or lasttoken");
    if (found != std::end(kPoolingModes)) model->pooling = found->second;
  } else {
    ParsePoolingFlags(&fields, model);
  }
  // Otherwise the tokens of a prompt would not count for the mean.
  fields.RequireOnly("include_prompt", true);
  model->dimension = static_cast<int32_t>(
      fields.Integer(named ? "embedding_dimension" : "word_embedding_dimension",
                     {.minimum = 1, .maximum = 1 << 16}));
  return fields.status();
}

absl::Status ParseSequenceLimit(std::string_view text, const std::filesystem::path& path,
                                SentenceModel* model) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJsonObject(text, kSentenceModelDeepestLevel, path));
  JsonFields fields(json, path.string());
  fields.RequireOnly("do_lower_case", false, " (tokenizer_config.json decides)");
  if (fields.Has("max_seq_length")) {
    model->max_tokens =
        static_cast<int32_t>(fields.Integer("max_seq_length", {.minimum = 3, .maximum = 1 << 20}));
  }
  return fields.status();
}

absl::Status ParseTokenizerLimit(std::string_view text, const std::filesystem::path& path,
                                 SentenceModel* model) {
  constexpr double kUnlimited = 1 << 20;  // tokenizers without a limit have one of 1e30
  ASSIGN_OR_RETURN(const Json json, ParseStrictJsonObject(text, kSentenceModelDeepestLevel, path));
  JsonFields fields(json, path.string());
  const double limit = fields.Number("model_max_length", kUnlimited);
  fields.Require(limit >= 3, "model_max_length", "at least 3");
  if (fields.status().ok() && limit < kUnlimited) model->max_tokens = static_cast<int32_t>(limit);
  return fields.status();
}

absl::Status ParsePrompts(std::string_view text, const std::filesystem::path& path,
                          SentenceModel* model) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJsonObject(text, kSentenceModelDeepestLevel, path));
  JsonFields fields(json, path.string());
  const std::string name = fields.Text("default_prompt_name", "");
  RETURN_IF_ERROR(fields.status());
  if (name.empty()) return absl::OkStatus();
  const Json& prompts = fields["prompts"];
  const bool found = prompts.is_object() && prompts.contains(name) && prompts[name].is_string() &&
                     prompts[name].get_ref<const std::string&>().size() <= kMaxPrefixBytes;
  fields.Require(
      found, "default_prompt_name",
      absl::StrCat("the name of one of prompts, of at most ", kMaxPrefixBytes, " bytes"));
  if (found) model->prefix = prompts[name].get<std::string>();
  return fields.status();
}

absl::StatusOr<SentenceModel> ReadSentenceModel(const std::filesystem::path& directory) {
  SentenceModel model{.encoder = directory};
  const std::filesystem::path path = directory / "modules.json";
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return model;
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(const SentenceModules modules, ParseSentenceModules(*text, path));
  if (!modules.encoder.empty()) model.encoder = directory / modules.encoder;
  RETURN_IF_ERROR(
      ReadInto(directory / modules.pooling / "config.json", true, &model, ParsePooling));
  RETURN_IF_ERROR(
      ReadInto(model.encoder / "sentence_bert_config.json", false, &model, ParseSequenceLimit));
  if (!model.max_tokens) {
    RETURN_IF_ERROR(
        ReadInto(model.encoder / "tokenizer_config.json", false, &model, ParseTokenizerLimit));
  }
  RETURN_IF_ERROR(
      ReadInto(directory / "config_sentence_transformers.json", false, &model, ParsePrompts));
  return model;
}

}  // namespace braid
