#include "evaluation/heldout_windows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runs/run_directory.h"

namespace braid {

namespace fs = std::filesystem;

absl::Status NoHeldoutSplit(const fs::path& dataset_dir) {
  return absl::FailedPreconditionError(
      absl::StrCat(dataset_dir.string(),
                   " has no held-out split to score; name another dataset (--data; eval perplexity "
                   "also has --text), or make the dataset with such a split (pack.heldout_fraction "
                   "of a corpus job, --validation of finetune)"));
}

absl::StatusOr<std::vector<HeldoutDomain>> OpenDomains(const fs::path& dataset_dir,
                                                       const DatasetInfo& info,
                                                       int64_t max_windows) {
  if (max_windows < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_windows_per_domain: got ", max_windows, ", expected 0 (all) or more"));
  }
  std::vector<HeldoutDomain> domains;
  for (const std::string& name : info.domains) {
    ASSIGN_OR_RETURN(DataLoader windows, DataLoader::Open(dataset_dir / "heldout" / name, info));
    int64_t count = windows.num_instances();
    if (max_windows > 0) count = std::min(count, max_windows);
    domains.push_back({name, std::move(windows), count});
  }
  if (domains.empty()) return NoHeldoutSplit(dataset_dir);
  return domains;
}

absl::Status CheckFits(const v1::ModelConfig& model, const DatasetInfo& info,
                       const fs::path& dataset_dir) {
  if (model.vocab_size() >= info.vocab_size && info.sequence_length <= model.sequence_length()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      dataset_dir.string(), " has vocab_size ", info.vocab_size, " and sequence_length ",
      info.sequence_length, ", but the model has ", model.vocab_size(), " and ",
      model.sequence_length(), "; score the model on data packed for it"));
}

bool SameTokenizer(const FileSummary& a, const FileSummary& b) {
  return a.crc32c == b.crc32c && a.bytes == b.bytes;
}

absl::Status CheckTokenizer(const fs::path& checkpoint, const fs::path& dataset_dir) {
  ASSIGN_OR_RETURN(const FileSummary mine, SummarizeFile(checkpoint / "tokenizer.model"));
  ASSIGN_OR_RETURN(const FileSummary theirs, SummarizeFile(dataset_dir / "tokenizer.model"));
  if (SameTokenizer(mine, theirs)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      dataset_dir.string(), " was made with another tokenizer than ", checkpoint.string(),
      ", so its token ids have other meanings; use data packed with the model's tokenizer"));
}

absl::StatusOr<fs::path> DatasetOf(const std::string& dataset_dir, const ModelPath& path) {
  if (!dataset_dir.empty()) return fs::path(dataset_dir);
  if (!path.run.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.checkpoint.string(),
                     " is not in a run directory, so its data is unknown; name a "
                     "dataset (dataset_dir, --data)"));
  }
  ASSIGN_OR_RETURN(const v1::RunSpec spec, RunDirectory(*path.run).ReadSpec());
  return fs::path(spec.dataset_dir());
}

}  // namespace braid
