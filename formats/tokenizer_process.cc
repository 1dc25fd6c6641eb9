#include "formats/tokenizer_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/child_process.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "formats/sentencepiece_library.h"

namespace braid {
namespace {

constexpr char kProgramName[] = "braid-tokenizer-trainer";
constexpr size_t kPendingBytes = 1 << 20;

std::string DescriptorPath(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

absl::StatusOr<int> CreateMemoryFile(const char* name) {
  const int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor < 0) return SystemError("create in memory", name, errno);
  return descriptor;
}

absl::Status WriteAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("write", "the tokenizer's training sample", errno);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerProcess> TokenizerProcess::Create() {
  ASSIGN_OR_RETURN(const int sample, CreateMemoryFile("tokenizer-sample"));
  const auto output = CreateMemoryFile("tokenizer-model");
  if (!output.ok()) {
    close(sample);
    return output.status();
  }
  return TokenizerProcess(sample, *output);
}

TokenizerProcess::TokenizerProcess(TokenizerProcess&& other) noexcept
    : sample_(std::exchange(other.sample_, -1)),
      output_(std::exchange(other.output_, -1)),
      pending_(std::move(other.pending_)) {}

TokenizerProcess::~TokenizerProcess() {
  if (sample_ >= 0) close(sample_);
  if (output_ >= 0) close(output_);
}

absl::Status TokenizerProcess::AddSentence(std::string_view sentence) {
  const auto size = static_cast<uint32_t>(sentence.size());
  BRAID_CHECK(size == sentence.size()) << sentence.size();
  pending_.append(reinterpret_cast<const char*>(&size), sizeof(size));
  pending_.append(sentence);
  if (pending_.size() < kPendingBytes) return absl::OkStatus();
  return WriteAll(sample_, std::exchange(pending_, {}));
}

absl::StatusOr<TokenizerProcess::Outcome> TokenizerProcess::Train(
    int32_t vocab_size, double character_coverage,
    const std::function<absl::Status()>& keep_going) {
  // Missing libraries are reported here: a program that cannot start has no way to explain itself.
  RETURN_IF_ERROR(OpenSentencePiece().status());
  ASSIGN_OR_RETURN(const std::filesystem::path module, FindSentencePieceModule());
  RETURN_IF_ERROR(WriteAll(sample_, std::exchange(pending_, {})));
  lseek(sample_, 0, SEEK_SET);
  ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::Start({.program = module.parent_path() / kProgramName,
                           .arguments = {kProgramName, absl::StrCat(vocab_size),
                                         absl::StrCat(character_coverage), absl::StrCat(getpid())},
                           .standard_input = sample_,
                           .standard_output = output_}));
  ASSIGN_OR_RETURN(const ChildProcess::End end, child.Wait(keep_going));
  if (end.signal.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kProgramName, " was killed by signal ", *end.signal,
                     " (probably out of memory); lower tokenizer.sample_bytes and resume"));
  }
  if (!end.exit_code.has_value()) {
    return absl::InternalError(absl::StrCat(
        kProgramName, ": the exit code is unknown because this process ignores SIGCHLD"));
  }
  if (*end.exit_code > 1) {
    return absl::InternalError(
        absl::StrCat(kProgramName, " exited with code ", *end.exit_code, ", expected 0 or 1"));
  }
  ASSIGN_OR_RETURN(std::string text, ReadFile(DescriptorPath(output_)));
  return Outcome{*end.exit_code == 0, std::move(text)};
}

}  // namespace braid
