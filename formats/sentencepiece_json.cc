#include "formats/sentencepiece_json.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "formats/protobuf_wire.h"
#include "formats/sentencepiece_settings.h"
#include "formats/word_boundaries.h"

namespace braid {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr uint64_t kNormalPiece = 1, kUnknownPiece = 2, kControlPiece = 3, kBytePiece = 6;

absl::Status NotExpressible(const std::string& got, std::string_view expected) {
  return absl::UnimplementedError(absl::StrCat("the SentencePiece model has ", got, ", expected ",
                                               std::string(expected),
                                               " for an equal tokenizer.json"));
}

absl::Status CheckExpressible(const SentencePieceSettings& settings) {
  constexpr uint64_t kBpe = 2;
  if (settings.model_type != kBpe) {
    return NotExpressible(absl::StrCat("model_type ", settings.model_type), "2 (BPE)");
  }
  if (!settings.byte_fallback) return NotExpressible("no byte_fallback", "it");
  if (settings.space_is_suffix) return NotExpressible("treat_whitespace_as_suffix", "it unset");
  if (settings.rewrites_text) return NotExpressible("rules of normalization", "none (identity)");
  if (!settings.adds_dummy_space) return NotExpressible("no add_dummy_prefix", "it");
  if (settings.removes_extra_spaces) return NotExpressible("remove_extra_whitespaces", "it unset");
  if (!settings.escapes_spaces) return NotExpressible("no escape_whitespaces", "it");
  return absl::OkStatus();
}

struct ScoredPiece {
  std::string_view text;
  float score = 0;
  uint64_t type = kNormalPiece;
};

// Reads a float at the end of the 32-bit field that ends at `end`.
float FloatBefore(std::string_view message, size_t end) {
  uint32_t bits = 0;
  for (size_t i = 0; i < sizeof(bits); ++i) {
    bits |= uint32_t{static_cast<uint8_t>(message[end - sizeof(bits) + i])} << (8 * i);
  }
  return std::bit_cast<float>(bits);
}

absl::StatusOr<ScoredPiece> ReadScoredPiece(std::string_view message) {
  constexpr uint64_t kText = 1, kScore = 2, kType = 3;
  ScoredPiece piece;
  for (size_t position = 0; position < message.size();) {
    const size_t start = position;
    const std::optional<WireField> field = ReadWireField(message, &position);
    if (!field) return absl::InvalidArgumentError("a piece of the SentencePiece model is cut off");
    if (field->number == kText) piece.text = field->bytes;
    if (field->number == kType) piece.type = field->value;
    if (field->number == kScore && position - start > sizeof(float)) {
      piece.score = FloatBefore(message, position);
    }
  }
  return piece;
}

absl::StatusOr<std::vector<ScoredPiece>> ReadScoredPieces(std::string_view model) {
  std::vector<ScoredPiece> pieces;
  for (size_t position = 0; position < model.size();) {
    const std::optional<WireField> field = ReadWireField(model, &position);
    if (!field) return absl::InvalidArgumentError("the SentencePiece model is cut off");
    if (field->number != 1) continue;
    ASSIGN_OR_RETURN(const ScoredPiece piece, ReadScoredPiece(field->bytes));
    const bool known = piece.type == kNormalPiece || piece.type == kUnknownPiece ||
                       piece.type == kControlPiece || piece.type == kBytePiece;
    if (!known) {
      return NotExpressible(
          absl::StrCat("piece ", pieces.size(), " of type ", piece.type, " (user-defined, unused)"),
          "normal, control and byte pieces");
    }
    if (piece.text.empty() || !IsValidUtf8(piece.text)) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece ", pieces.size(), " of the SentencePiece model is not text"));
    }
    pieces.push_back(piece);
  }
  return pieces;
}

// Returns the merges in the order of their ranks. SentencePiece joins any two neighbors that are a
// piece together, the leftmost of those of the highest score.
absl::StatusOr<OrderedJson> MergesOf(const std::vector<ScoredPiece>& pieces) {
  absl::flat_hash_map<std::string_view, float> scores;
  for (const ScoredPiece& piece : pieces) {
    if (piece.type == kNormalPiece) scores[piece.text] = piece.score;
  }
  // Negated score, bytes of the first part, piece.
  std::vector<std::tuple<float, size_t, std::string_view>> merges;
  for (const auto& [text, score] : scores) {
    bool reached = true;
    size_t begin = 0;
    for (size_t i = 1; i <= text.size(); ++i) {
      if (i < text.size() && IsContinuationByte(text[i])) continue;
      // A neighbor that is a character without a piece would be joined too, by no merge.
      reached &= scores.contains(text.substr(begin, i - begin));
      begin = i;
      if (i < text.size() && scores.contains(text.substr(0, i)) &&
          scores.contains(text.substr(i))) {
        merges.emplace_back(-score, i, text);
      }
    }
    if (!reached) {
      return NotExpressible(
          absl::StrCat("the piece \"", std::string(text), "\" without pieces for its characters"),
          "a piece for each");
    }
  }
  std::ranges::sort(merges);
  OrderedJson result = OrderedJson::array();
  for (const auto& [score, length, text] : merges) {
    result.push_back({std::string(text.substr(0, length)), std::string(text.substr(length))});
  }
  return result;
}

OrderedJson SpecialTokens(const std::vector<ScoredPiece>& pieces) {
  OrderedJson tokens = OrderedJson::array();
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type != kUnknownPiece && pieces[id].type != kControlPiece) continue;
    tokens.push_back({{"id", id},
                      {"content", std::string(pieces[id].text)},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", true}});
  }
  return tokens;
}

OrderedJson Replacement(std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"},
          {"pattern", {{"String", std::string(pattern)}}},
          {"content", std::string(content)}};
}

OrderedJson TextNormalizer() {
  const OrderedJson prepend = {{"type", "Prepend"}, {"prepend", std::string(kSpaceSymbol)}};
  return {{"type", "Sequence"},
          {"normalizers", OrderedJson::array({prepend, Replacement(" ", kSpaceSymbol)})}};
}

OrderedJson TokenDecoder() {
  const OrderedJson strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {{"type", "Sequence"},
          {"decoders", OrderedJson::array({Replacement(kSpaceSymbol, " "),
                                           {{"type", "ByteFallback"}},
                                           {{"type", "Fuse"}},
                                           strip})}};
}

}  // namespace

nlohmann::ordered_json StartProcessor(const std::string& start, int32_t id) {
  const auto part = [](const char* kind, const std::string& name, int type) {
    return OrderedJson{{kind, {{"id", name}, {"type_id", type}}}};
  };
  OrderedJson token = {
      {"id", start}, {"ids", OrderedJson::array({id})}, {"tokens", OrderedJson::array({start})}};
  return {
      {"type", "TemplateProcessing"},
      {"single", OrderedJson::array({part("SpecialToken", start, 0), part("Sequence", "A", 0)})},
      {"pair", OrderedJson::array({part("SpecialToken", start, 0), part("Sequence", "A", 0),
                                   part("SpecialToken", start, 1), part("Sequence", "B", 1)})},
      {"special_tokens", {{start, std::move(token)}}}};
}

absl::StatusOr<std::string> SentencePieceJson(std::string_view model,
                                              std::optional<int32_t> start_id) {
  ASSIGN_OR_RETURN(const SentencePieceSettings settings, ReadSentencePieceSettings(model));
  RETURN_IF_ERROR(CheckExpressible(settings));
  ASSIGN_OR_RETURN(const std::vector<ScoredPiece> pieces, ReadScoredPieces(model));
  OrderedJson vocabulary = OrderedJson::object();
  std::optional<std::string> unknown;
  std::set<std::string_view> seen;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (!seen.insert(pieces[id].text).second) {
      return NotExpressible(absl::StrCat("the piece \"", std::string(pieces[id].text), "\" twice"),
                            "it once");
    }
    if (pieces[id].type == kUnknownPiece) unknown = std::string(pieces[id].text);
  }
  if (!unknown) return NotExpressible("no unknown piece", "one");
  // An ordered_json searches the whole object for each key that is added by name.
  using Member = OrderedJson::object_t::value_type;
  auto& members = vocabulary.get_ref<OrderedJson::object_t&>();
  for (size_t id = 0; id < pieces.size(); ++id) {
    members.push_back(Member(std::string(pieces[id].text), id));
  }
  ASSIGN_OR_RETURN(OrderedJson merges, MergesOf(pieces));
  OrderedJson processor;
  if (start_id.has_value()) {
    const std::string_view start = pieces[static_cast<size_t>(*start_id)].text;
    processor = StartProcessor(std::string(start), *start_id);
  }
  const OrderedJson root = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", SpecialTokens(pieces)},
                            {"normalizer", TextNormalizer()},
                            {"pre_tokenizer", nullptr},
                            {"post_processor", std::move(processor)},
                            {"decoder", TokenDecoder()},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", *unknown},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", true},
                              {"byte_fallback", true},
                              {"ignore_merges", false},
                              {"vocab", std::move(vocabulary)},
                              {"merges", std::move(merges)}}}};
  return root.dump() + "\n";
}

}  // namespace braid
