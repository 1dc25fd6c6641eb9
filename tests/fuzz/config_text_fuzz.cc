// CorpusSpec and RunSpec as text and as "path=value", and their resolved configurations.
#include "braid/v1/corpus.pb.h"
#include "braid/v1/training.pb.h"
#include "pipeline/corpus/corpus_spec.h"
#include "proto/config_text.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

template <class Message>
Message Parse(std::string_view text) {
  Message message;
  ParseConfig(text, "fuzz", &message).IgnoreError();
  SetField(&message, text).IgnoreError();
  return message;
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(config_text)() {
  return {"paths: \"a.jsonl\" ingest { split_bytes: 600 strict: true } order: RANDOM seed: 7",
          "model { preset: \"tiny\" routing { num_experts: 8 moe_layers: [1, 3] } } world_size: 2",
          "ingest.max_document_bytes=-1",
          "deduplicate.min_cosine=nan",
          "model.routing.num_expert=8",
          "order=SIMILARITY"};
}

}  // namespace braid

int FUZZ_INPUT(config_text)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  const std::string_view text = AsText(data, size);
  ResolveCorpusSpec(Parse<v1::CorpusSpec>(text)).status().IgnoreError();
  Parse<v1::RunSpec>(text);
  return 0;
}
