// C interface of libbraid_sentencepiece.so, the only code that links libsentencepiece.
//
// Only plain C types: the module and the program share no C++ library objects, and neither sees the
// other's Protocol Buffers runtime.
#ifndef BRAID_FORMATS_SENTENCEPIECE_MODULE_H_
#define BRAID_FORMATS_SENTENCEPIECE_MODULE_H_

#include <stddef.h>
#include <stdint.h>

extern "C" {

// Receives a result, which is valid during the call only.
typedef void (*SentencePieceIdSink)(void* context, const int32_t* ids, size_t count);
typedef void (*SentencePieceTextSink)(void* context, const char* text, size_t size);
// Returns training sentence `index`, or nullptr after the last one. The sentence stays valid until
// the next call.
typedef const char* (*SentencePieceSource)(void* context, size_t index, size_t* size);

// Functions that return int return 0 for success; otherwise `error` has received a message.
typedef struct SentencePieceApi {
  // Equals kSentencePieceAbi unless module and program are from different builds.
  int32_t abi;

  // Creates a processor for the serialized model, to be freed by `free`; nullptr after an error.
  void* (*load)(const char* bytes, size_t size, void* context, SentencePieceTextSink error);
  void (*free)(void* model);
  int32_t (*piece_count)(const void* model);
  int32_t (*bos_id)(const void* model);
  int32_t (*eos_id)(const void* model);
  // Returns the id of a piece; the unknown id if there is no such piece.
  int32_t (*piece_to_id)(const void* model, const char* piece, size_t size);
  void (*id_to_piece)(const void* model, int32_t id, void* context, SentencePieceTextSink sink);
  int (*encode)(const void* model, const char* text, size_t size, void* context,
                SentencePieceIdSink sink, SentencePieceTextSink error);
  int (*decode)(const void* model, const int32_t* ids, size_t count, void* context,
                SentencePieceTextSink sink, SentencePieceTextSink error);
  // Trains a BPE model; `sink` receives the serialized model.
  int (*train)(int32_t vocab_size, double character_coverage, void* source_context,
               SentencePieceSource source, void* context, SentencePieceTextSink sink,
               SentencePieceTextSink error);
} SentencePieceApi;

enum { kSentencePieceAbi = 1 };

// The module's only exported symbol.
typedef const SentencePieceApi* (*SentencePieceEntryPoint)(void);
__attribute__((visibility("default"))) const SentencePieceApi* braid_sentencepiece_api(void);

}  // extern "C"

#endif  // BRAID_FORMATS_SENTENCEPIECE_MODULE_H_
