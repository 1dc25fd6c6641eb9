#include "formats/tokenizer_file.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "base/utf8.h"
#include "formats/added_pieces.h"
#include "formats/sentencepiece_model_check.h"
#include "formats/tokenizer_json_fields.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kAddedTokensFile[] = "added_tokens.json";
constexpr int64_t kMostAddedId = std::numeric_limits<int32_t>::max();

// Returns the JSON object in the file `name` beside `path`; an empty object if the file is missing.
absl::StatusOr<Json> ObjectBeside(const fs::path& path, const char* name, const FileReader& read) {
  const fs::path file = path.parent_path() / name;
  std::error_code error;
  if (!fs::exists(file, error)) return Json::object();
  ASSIGN_OR_RETURN(const std::string text, read(file));
  return ParseStrictJsonObject(text, kTokenizerJsonDeepestLevel, file);
}

// Adds what `config`, the content of tokenizer_config.json, says about the ends of texts.
absl::StatusOr<std::string> WithEndTokens(std::string text, const fs::path& path,
                                          const Json& config) {
  if (config.empty()) return text;
  ASSIGN_OR_RETURN(const Json root, ParseStrictJsonObject(text, kTokenizerJsonDeepestLevel, path));
  if (root.contains(kBraidField)) return text;
  Json tokens = Json::object();
  for (const char* name : {"eos_token", "bos_token"}) {
    if (const auto content = TokenContent(FieldOf(config, name))) tokens[name] = *content;
  }
  text.insert(text.find('{') + 1,
              absl::StrCat("\"", kBraidField, "\":", tokens.dump(), root.empty() ? "" : ","));
  return text;
}

// Returns the tokens that tokenizer_config.json names for a purpose, such as eos_token.
std::set<std::string> NamedTokens(const Json& config) {
  std::set<std::string> named;
  const auto add = [&](const Json& token) {
    if (std::optional<std::string> content = TokenContent(token)) named.insert(*std::move(content));
  };
  for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    add(FieldOf(config, name));
  }
  for (const Json& token : FieldOf(config, "additional_special_tokens")) add(token);
  return named;
}

// Adds the tokens of added_tokens.json, with the properties that tokenizer_config.json has of them.
// Refuses the files of another class than that of GPT-2, which splits and normalizes text in its
// own way.
absl::Status AddTokensBeside(const fs::path& vocab_path, const Json& config, const Json& vocab,
                             const FileReader& read, Json* added) {
  const Json& named = FieldOf(config, "tokenizer_class");
  const std::string tokenizer_class = named.is_string() ? named.get<std::string>() : "";
  if (!tokenizer_class.empty() && !tokenizer_class.starts_with("GPT2Tokenizer")) {
    return UnsupportedTokenizer(
        (vocab_path.parent_path() / kTokenizerConfigFile).string() + ": tokenizer_class",
        tokenizer_class, "GPT2Tokenizer beside vocab.json, or a tokenizer.json");
  }
  if (IsTrue(config, "add_prefix_space")) {
    return UnsupportedTokenizer(
        (vocab_path.parent_path() / kTokenizerConfigFile).string() + ": add_prefix_space", "true",
        "false");
  }
  ASSIGN_OR_RETURN(const Json tokens, ObjectBeside(vocab_path, kAddedTokensFile, read));
  const std::set<std::string> special_tokens = NamedTokens(config);
  const Json& stated = FieldOf(config, "added_tokens_decoder");
  for (const auto& [content, id] : tokens.items()) {
    if (vocab.contains(content)) continue;
    Json token = FieldOf(stated, id.dump().c_str());
    if (FieldOf(token, "content") != Json(content)) {
      const bool special = special_tokens.contains(content);
      token = {{"special", special}, {"normalized", !special}};
    }
    token["id"] = id;
    token["content"] = content;
    added->push_back(std::move(token));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Gpt2TokenizerJson(const fs::path& vocab_path, const FileReader& read) {
  ASSIGN_OR_RETURN(const std::string vocab_text, read(vocab_path));
  ASSIGN_OR_RETURN(const Json vocab, ParseStrictJsonObject(vocab_text, 2, vocab_path));
  const fs::path merges_path = vocab_path.parent_path() / "merges.txt";
  ASSIGN_OR_RETURN(const std::string merges_text, read(merges_path));
  Json merges = Json::array();
  int line_number = 0;
  for (std::string_view line : std::vector<std::string>(absl::StrSplit(merges_text, '\n'))) {
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!IsValidUtf8(line)) {
      return absl::InvalidArgumentError(
          absl::StrCat(merges_path.string(), ": line ", line_number, " is not UTF-8"));
    }
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  Json added = Json::array();
  for (const char* content : kKnownEos) {
    const auto found = vocab.find(content);
    if (found == vocab.end()) continue;
    added.push_back({{"id", *found}, {"content", content}, {"special", true}});
  }
  ASSIGN_OR_RETURN(const Json config, ObjectBeside(vocab_path, kTokenizerConfigFile, read));
  RETURN_IF_ERROR(AddTokensBeside(vocab_path, config, vocab, read, &added));
  const Json root = {{"version", "1.0"},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                     {"decoder", {{"type", "ByteLevel"}}},
                     {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
  return WithEndTokens(root.dump(), vocab_path, config);
}

// Returns the tokens that added_tokens.json and tokenizer_config.json, whose content is `config`,
// add to the SentencePiece model at `path`.
absl::StatusOr<std::vector<AddedPiece>> TokensBeside(const fs::path& path, const Json& config,
                                                     const FileReader& read) {
  std::vector<AddedPiece> tokens;
  const std::string stated_at =
      (path.parent_path() / kTokenizerConfigFile).string() + ": added_tokens_decoder";
  const Json& stated = FieldOf(config, "added_tokens_decoder");
  for (const auto& [id, token] : stated.items()) {
    AddedPiece piece{.content = TokenContent(token).value_or(""),
                     .special = IsTrue(token, "special")};
    if (piece.content.empty() || !absl::SimpleAtoi(id, &piece.id)) {
      return absl::InvalidArgumentError(
          absl::StrCat(stated_at, ": got an entry \"", id, "\", expected an id and its token"));
    }
    for (const char* option : {"single_word", "lstrip", "rstrip"}) {
      if (piece.special || !IsTrue(token, option)) continue;
      return UnsupportedTokenizer(absl::StrCat(stated_at, "[\"", id, "\"].", option), "true",
                                  "false, or a special token");
    }
    tokens.push_back(std::move(piece));
  }
  ASSIGN_OR_RETURN(const Json added, ObjectBeside(path, kAddedTokensFile, read));
  const std::set<std::string> special_tokens = NamedTokens(config);
  for (const auto& [content, id] : added.items()) {
    if (!id.is_number_unsigned() || id > kMostAddedId) {
      return absl::InvalidArgumentError(
          absl::StrCat((path.parent_path() / kAddedTokensFile).string(), ": \"", content,
                       "\": got ", id.dump(), ", expected an id"));
    }
    if (FieldOf(FieldOf(stated, id.dump().c_str()), "content") == Json(content)) continue;
    tokens.push_back({content, id.get<int64_t>(), special_tokens.contains(content)});
  }
  return tokens;
}

}  // namespace

absl::StatusOr<TokenizerFile> ReadTokenizerFile(const fs::path& path, const FileReader& read) {
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(path, error)) {
    for (const char* name : {"tokenizer.model", "tokenizer.json", "vocab.json"}) {
      file = path / name;
      if (fs::exists(file, error)) break;
    }
    if (!fs::exists(file, error)) {
      return absl::NotFoundError(
          absl::StrCat(path.string(),
                       ": found none of tokenizer.model, tokenizer.json and vocab.json; name the "
                       "tokenizer's file with --tokenizer"));
    }
  }
  if (file.filename() == "vocab.json") {
    ASSIGN_OR_RETURN(std::string json, Gpt2TokenizerJson(file, read));
    return TokenizerFile{file, std::move(json)};
  }
  ASSIGN_OR_RETURN(std::string bytes, read(file));
  // Some editors write a byte order mark before the text. SentencePiece models, which are binary,
  // stay unchanged because no brace follows.
  if (bytes.starts_with("\xEF\xBB\xBF{")) bytes.erase(0, 3);
  ASSIGN_OR_RETURN(const Json config, ObjectBeside(file, kTokenizerConfigFile, read));
  if (!bytes.starts_with('{')) {
    // Tokenizer::Parse refuses other files.
    if (CheckSentencePieceModel(file, bytes).ok()) {
      ASSIGN_OR_RETURN(std::vector<AddedPiece> added, TokensBeside(file, config, read));
      ASSIGN_OR_RETURN(bytes, WithAddedPieces(std::move(bytes), std::move(added), file));
    }
    return TokenizerFile{file, std::move(bytes), TokenContent(FieldOf(config, "eos_token"))};
  }
  ASSIGN_OR_RETURN(bytes, WithEndTokens(std::move(bytes), file, config));
  return TokenizerFile{file, std::move(bytes)};
}

std::string ForOtherPrograms(std::string_view stored) {
  auto root = nlohmann::ordered_json::parse(stored);
  root.erase(kBraidField);
  return root.dump();
}

}  // namespace braid
