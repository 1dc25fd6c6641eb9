// braid-tokenizer-trainer: trains one SentencePiece model and exits. It is a separate program
// because training cannot be interrupted, but a process can be killed; see tokenizer_process.h.
//
//   braid-tokenizer-trainer VOCAB_SIZE CHARACTER_COVERAGE PARENT_PID < sentences > model
//
// Each sentence is a 32-bit length and that many bytes. Exit code 0: standard output has the model;
// 1: it has an error message.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "formats/sentencepiece_module.h"

namespace {

const char* NextSentence(void* sentence, size_t, size_t* size) {
  uint32_t length = 0;
  if (std::fread(&length, sizeof(length), 1, stdin) != 1) return nullptr;
  auto* const text = static_cast<std::string*>(sentence);
  text->resize(length);
  if (std::fread(text->data(), 1, length, stdin) != length) return nullptr;
  *size = length;
  return text->data();
}

void Write(void*, const char* bytes, size_t size) {
  if (std::fwrite(bytes, 1, size, stdout) != size || std::fflush(stdout) != 0) std::_Exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("braid-tokenizer-trainer is started by braid and braidd, not by users\n", stderr);
    return 2;
  }
  // Ends this process with its parent, which may have ended before the call.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != std::atoi(argv[3])) return 2;
  std::string sentence;
  return braid_sentencepiece_api()->train(std::atoi(argv[1]), std::atof(argv[2]), &sentence,
                                          NextSentence, nullptr, Write, Write);
}
