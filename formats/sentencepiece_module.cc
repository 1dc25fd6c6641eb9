#include "formats/sentencepiece_module.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

using sentencepiece::SentencePieceProcessor;

const SentencePieceProcessor& Processor(const void* model) {
  return *static_cast<const SentencePieceProcessor*>(model);
}

void Send(std::string_view text, void* context, SentencePieceTextSink sink) {
  sink(context, text.data(), text.size());
}

// Catches all exceptions: none may cross the C interface.
template <class Function>
int Guard(void* context, SentencePieceTextSink error, Function function) {
  try {
    const sentencepiece::util::Status status = function();
    if (status.ok()) return 0;
    Send(status.error_message(), context, error);
  } catch (const std::exception& e) {
    Send(e.what(), context, error);
  }
  return 1;
}

void* Load(const char* bytes, size_t size, void* context, SentencePieceTextSink error) {
  auto processor = std::make_unique<SentencePieceProcessor>();
  const int rc = Guard(context, error, [&] {
    return processor->LoadFromSerializedProto(std::string_view(bytes, size));
  });
  return rc == 0 ? processor.release() : nullptr;
}

void Free(void* model) { delete static_cast<SentencePieceProcessor*>(model); }

int32_t PieceCount(const void* model) { return Processor(model).GetPieceSize(); }
int32_t BosId(const void* model) { return Processor(model).bos_id(); }
int32_t EosId(const void* model) { return Processor(model).eos_id(); }

int32_t PieceToId(const void* model, const char* piece, size_t size) {
  return Processor(model).PieceToId(std::string_view(piece, size));
}

void IdToPiece(const void* model, int32_t id, void* context, SentencePieceTextSink sink) {
  Send(Processor(model).IdToPiece(id), context, sink);
}

int Encode(const void* model, const char* text, size_t size, void* context,
           SentencePieceIdSink sink, SentencePieceTextSink error) {
  return Guard(context, error, [&] {
    std::vector<int> ids;
    auto status = Processor(model).Encode(std::string_view(text, size), &ids);
    if (status.ok()) sink(context, ids.data(), ids.size());
    return status;
  });
}

int Decode(const void* model, const int32_t* ids, size_t count, void* context,
           SentencePieceTextSink sink, SentencePieceTextSink error) {
  return Guard(context, error, [&] {
    std::string text;
    auto status = Processor(model).Decode(std::vector<int>(ids, ids + count), &text);
    if (status.ok()) Send(text, context, sink);
    return status;
  });
}

class SourceIterator : public sentencepiece::SentenceIterator {
 public:
  SourceIterator(void* context, SentencePieceSource source) : context_(context), source_(source) {
    Next();
  }
  bool done() const override { return done_; }
  void Next() override {
    size_t size = 0;
    const char* sentence = source_(context_, index_++, &size);
    done_ = sentence == nullptr;
    value_.assign(done_ ? "" : sentence, size);
  }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void* context_;
  SentencePieceSource source_;
  size_t index_ = 0;
  bool done_ = false;
  std::string value_;
};

// Returns LLaMA's settings. The number of threads is stored in the model, so it is fixed.
std::unordered_map<std::string, std::string> TrainerSettings(int32_t vocab_size,
                                                             double character_coverage) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(vocab_size)},
          {"character_coverage", std::to_string(character_coverage)},
          {"byte_fallback", "true"},
          {"split_digits", "true"},
          {"allow_whitespace_only_pieces", "true"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "true"},
          {"remove_extra_whitespaces", "false"},
          {"unk_id", "0"},
          {"bos_id", "1"},
          {"eos_id", "2"},
          {"pad_id", "-1"},
          {"max_sentence_length", "1048576"},
          {"num_threads", "4"},
          {"minloglevel", "2"}};
}

int Train(int32_t vocab_size, double character_coverage, void* source_context,
          SentencePieceSource source, void* context, SentencePieceTextSink sink,
          SentencePieceTextSink error) {
  return Guard(context, error, [&] {
    SourceIterator sentences(source_context, source);
    std::string model;
    auto status = sentencepiece::SentencePieceTrainer::Train(
        TrainerSettings(vocab_size, character_coverage), &sentences, &model);
    if (status.ok()) Send(model, context, sink);
    return status;
  });
}

constexpr SentencePieceApi kApi = {kSentencePieceAbi, Load,      Free,   PieceCount, BosId, EosId,
                                   PieceToId,         IdToPiece, Encode, Decode,     Train};

}  // namespace

const SentencePieceApi* braid_sentencepiece_api(void) { return &kApi; }
