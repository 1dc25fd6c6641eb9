// Training of a SentencePiece model in a separate process, braid-tokenizer-trainer, which is
// installed beside the SentencePiece module. The library cannot be interrupted; a process can be
// killed.
#ifndef BRAID_FORMATS_TOKENIZER_PROCESS_H_
#define BRAID_FORMATS_TOKENIZER_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Collects training sentences and runs the process. Different objects may be used from different
// threads. The process is killed when the thread that trains ends, even if that thread is killed.
class TokenizerProcess {
 public:
  // Errors: RESOURCE_EXHAUSTED if there are no memory or descriptors for the sample.
  static absl::StatusOr<TokenizerProcess> Create();
  TokenizerProcess(TokenizerProcess&& other) noexcept;
  ~TokenizerProcess();

  // Adds a sentence, which must be shorter than 4 GiB.
  absl::Status AddSentence(std::string_view sentence);

  // The result: the serialized model, or SentencePiece's message if training failed.
  struct Outcome {
    bool trained = false;
    std::string text;
  };
  // Trains on the sentences added. `keep_going` is called every 50 ms; its first error kills the
  // process and is returned. NOT_FOUND if the program does not exist; RESOURCE_EXHAUSTED if the
  // process was killed, for example by the kernel when memory ran out.
  absl::StatusOr<Outcome> Train(int32_t vocab_size, double character_coverage,
                                const std::function<absl::Status()>& keep_going);

 private:
  TokenizerProcess(int sample, int output) : sample_(sample), output_(output) {}

  int sample_;  // descriptors of files in memory
  int output_;
  std::string pending_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_TOKENIZER_PROCESS_H_
