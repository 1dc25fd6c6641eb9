#include "cli/need_checks.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "cli/arguments.h"
#include "pipeline/corpus/text_source.h"

namespace braid {
namespace {

// Memory of a process with LibTorch, MPI and gRPC loaded before it trains.
constexpr int64_t kProcessBytes = int64_t{300} << 20;
// A checkpoint holds the weights and two moments in fp32.
constexpr int64_t kCheckpointBytesPerParameter = 12;
// Output of all stages for documents of about one kilobyte; docs/scale.md has the formulas.
constexpr double kDiskBytesPerTextByte = 4;
constexpr double kUsualCompression = 4;

Finding Compare(const std::string& what, const std::string& why, int64_t need, int64_t free,
                const std::string& hint) {
  return {need <= free ? Grade::kGood : Grade::kBad, what,
          absl::StrCat(why, ": ", FormatBytes(need), " needed, ", FormatBytes(free), " free"),
          hint};
}

int64_t TextBytes(const std::filesystem::directory_entry& file) {
  const bool compressed = !CompressionOf(file.path()).empty();
  return static_cast<int64_t>(static_cast<double>(file.file_size()) *
                              (compressed ? kUsualCompression : 1));
}

}  // namespace

Resources FreeResources(const std::filesystem::path& home) {
  Resources free;
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  for (int64_t kib = 0; meminfo >> name >> kib; meminfo.ignore(80, '\n')) {
    if (name == "MemAvailable:") free.memory_bytes = kib << 10;
  }
  std::error_code error;
  const auto space = std::filesystem::space(home, error);
  if (!error) free.disk_bytes = static_cast<int64_t>(space.available);
  return free;
}

absl::StatusOr<int64_t> CorpusBytes(const std::vector<std::string>& paths) {
  int64_t bytes = 0;
  for (const std::string& path : paths) {
    try {
      if (!std::filesystem::is_directory(path)) {
        bytes += TextBytes(std::filesystem::directory_entry(path));
        continue;
      }
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
        if (entry.is_regular_file()) bytes += TextBytes(entry);
      }
    } catch (const std::filesystem::filesystem_error& error) {
      return FilesystemError(error);
    }
  }
  return bytes;
}

Findings JudgeModelNeed(const v1::DescribeModelResponse& model, int ranks_per_host,
                        int keep_checkpoints, const Resources& free) {
  const int64_t rank_bytes = model.forecast().total_bytes_zero_1() + kProcessBytes;
  return {
      Compare("memory",
              absl::StrFormat("%d rank%s of %s on this host", ranks_per_host,
                              ranks_per_host == 1 ? "" : "s", FormatBytes(rank_bytes)),
              rank_bytes * ranks_per_host, free.memory_bytes,
              "use more hosts, a smaller micro-batch or a smaller model; see: braid model describe "
              "--forecast"),
      Compare("checkpoints", absl::StrFormat("%d kept and one being written", keep_checkpoints),
              model.num_parameters() * kCheckpointBytesPerParameter * (keep_checkpoints + 1),
              free.disk_bytes,
              "free disk space, or keep fewer checkpoints (checkpoint.keep_last)")};
}

Finding JudgeCorpusNeed(int64_t text_bytes, const Resources& free) {
  return Compare("corpus", absl::StrCat("a job on ", FormatBytes(text_bytes), " of text"),
                 static_cast<int64_t>(static_cast<double>(text_bytes) * kDiskBytesPerTextByte),
                 free.disk_bytes, "free disk space, or choose another --home");
}

}  // namespace braid
