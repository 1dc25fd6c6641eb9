// Training a SentencePiece model in a process of its own, braid-tokenizer-trainer, which lies
// beside the SentencePiece module. The library offers no way to stop it; a process can be killed.
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

// Thread-safe to use from different threads on different objects. The process dies with the
// thread that trains, also when that is killed.
class TokenizerProcess {
 public:
  // RESOURCE_EXHAUSTED without memory or descriptors for the sample.
  static absl::StatusOr<TokenizerProcess> Create();
  TokenizerProcess(TokenizerProcess&& other) noexcept;
  ~TokenizerProcess();

  // Requires a sentence of less than 4 GiB.
  absl::Status AddSentence(std::string_view sentence);

  // What came out: the serialised model, or SentencePiece's message why there is none.
  struct Outcome {
    bool trained = false;
    std::string text;
  };
  // Trains on the sentences added. `keep_going` is asked every 50 ms; an error of it kills the
  // process and is returned. NOT_FOUND without the program; RESOURCE_EXHAUSTED when it was
  // killed, as by the kernel for want of memory.
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
