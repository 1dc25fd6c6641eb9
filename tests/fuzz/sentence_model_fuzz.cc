// The files beside an encoder: modules.json, pooling, limit, prompts, and a tokenizer.json of
// WordPiece. The first byte selects the file.
#include "base/check.h"
#include "retrieval/sentence_model.h"
#include "retrieval/wordpiece_json.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(sentence_model)() {
  return {
      R"(0[{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
           {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])",
      R"(1{"word_embedding_dimension": 8, "pooling_mode_cls_token": true})",
      R"(2{"max_seq_length": 256, "do_lower_case": false})",
      R"(3{"prompts": {"document": "passage: "}, "default_prompt_name": "document"})",
      R"(4{"normalizer": {"type": "BertNormalizer", "lowercase": true},
           "pre_tokenizer": {"type": "BertPreTokenizer"},
           "model": {"unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "##b": 2}}})",
      R"(5{"model_max_length": 512})",
      R"(1{"embedding_dimension": 8, "pooling_mode": "lasttoken"})"};
}

}  // namespace braid

int FUZZ_INPUT(sentence_model)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  if (size == 0) return 0;
  const std::string_view text = AsText(data, size).substr(1);
  SentenceModel model;
  switch (data[0] % 6) {
    case '0' % 6:
      ParseSentenceModules(text, "fuzz").IgnoreError();
      break;
    case '1' % 6:
      if (ParsePooling(text, "fuzz", &model).ok()) BRAID_CHECK(model.dimension > 0);
      break;
    case '2' % 6:
      if (ParseSequenceLimit(text, "fuzz", &model).ok()) {
        BRAID_CHECK(model.max_tokens.value_or(3) >= 3);
      }
      break;
    case '3' % 6:
      ParsePrompts(text, "fuzz", &model).IgnoreError();
      break;
    case '5' % 6:
      if (ParseTokenizerLimit(text, "fuzz", &model).ok()) {
        BRAID_CHECK(model.max_tokens.value_or(3) >= 3);
      }
      break;
    default:
      const auto tokenizer = ParseWordPieceJson(text, "fuzz");
      if (!tokenizer.ok()) break;
      for (const int32_t id : tokenizer->Encode("ab a b", 6).ids) {
        BRAID_CHECK(id >= 0 && id < tokenizer->vocabulary().size()) << id;
      }
  }
  return 0;
}
