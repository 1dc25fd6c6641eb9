#include "formats/sentencepiece_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr char kModuleName[] = "libbraid_sentencepiece.so";
constexpr char kModuleVariable[] = "BRAID_SENTENCEPIECE_MODULE";

std::vector<std::string> SearchedPaths() {
  if (const char* path = std::getenv(kModuleVariable); path != nullptr && *path != '\0') {
    return {path};
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> paths;
  for (const char* folder : {"../lib", "../lib/braid", "."}) {
    paths.push_back((program.parent_path() / folder / kModuleName).lexically_normal().string());
  }
  return paths;
}

// Keeps libsentencepiece's Protocol Buffers runtime apart from the program's. Sanitizers refuse
// deep binding, so there the module gets a linker namespace of its own.
void* OpenIsolated(const std::string& path) {
#if defined(BRAID_ASAN) || defined(BRAID_TSAN)
  return dlmopen(LM_ID_NEWLM, path.c_str(), RTLD_NOW | RTLD_LOCAL);
#else
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
#endif
}

absl::StatusOr<const SentencePieceApi*> OpenModule(const std::string& path) {
  void* handle = OpenIsolated(path);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot load the SentencePiece module ", path,
                                                      ": ", dlerror(),
                                                      "; install libsentencepiece0 (Debian)"));
  }
  auto* entry = reinterpret_cast<SentencePieceEntryPoint>(dlsym(handle, "braid_sentencepiece_api"));
  const int32_t abi = entry == nullptr ? -1 : entry()->abi;
  if (abi != kSentencePieceAbi) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not this build's SentencePiece module: got interface ", abi,
                     ", expected ", static_cast<int>(kSentencePieceAbi), "; rebuild it"));
  }
  return entry();
}

}  // namespace

absl::StatusOr<std::filesystem::path> FindSentencePieceModule() {
  const std::vector<std::string> paths = SearchedPaths();
  for (const std::string& path : paths) {
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error)) return path;
  }
  return absl::NotFoundError(absl::StrCat(
      "SentencePiece module not found: looked for ", absl::StrJoin(paths, ", "),
      "; build the target braid_sentencepiece or set ", kModuleVariable, " to its path"));
}

absl::StatusOr<const SentencePieceApi*> OpenSentencePiece() {
  static std::mutex mutex;
  static const SentencePieceApi* opened = nullptr;
  const std::lock_guard lock(mutex);
  if (opened == nullptr) {
    ASSIGN_OR_RETURN(const std::filesystem::path path, FindSentencePieceModule());
    ASSIGN_OR_RETURN(opened, OpenModule(path.string()));
  }
  return opened;
}

}  // namespace braid
