#include "runs/mixture_spec.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/field_digest.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "runs/batch_spec.h"
#include "runs/checkpoint.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Shares are decimal numbers that users write, such as three times 0.333333.
constexpr double kShareTolerance = 1e-5;

std::string FieldOf(int index) { return absl::StrCat("datasets[", index, "]"); }

absl::Status BadDataset(int index, const std::string& got, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(FieldOf(index), ": got ", got, ", expected ", expected));
}

absl::StatusOr<std::string> AbsoluteDataset(const std::string& field, const std::string& path) {
  if (!path.empty()) {
    const fs::path normal = fs::absolute(path).lexically_normal();
    return (normal.has_filename() ? normal : normal.parent_path()).string();
  }
  const bool is_only = field == "dataset_dir";
  return absl::InvalidArgumentError(
      absl::StrCat(is_only ? "--data (dataset_dir)" : field, ": got nothing, expected ",
                   is_only ? "a job or " : "", "the directory of a packed dataset"));
}

absl::StatusOr<DatasetInfo> ReadOneDataset(const std::string& field, const std::string& path) {
  absl::StatusOr<DatasetInfo> info = ReadDatasetInfo(path);
  if (!info.ok()) return info.status();
  if (info->num_instances > 0) return info;
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", path,
                   " has 0 training instances, expected at least 1; add documents to the "
                   "corpus or lower pack.sequence_length"));
}

// Checks that a dataset can be mixed with the first one.
absl::Status CheckLike(const std::string& first_path, const DatasetInfo& first, int index,
                       const std::string& path, const DatasetInfo& info) {
  if (info.sequence_length != first.sequence_length) {
    return BadDataset(index, absl::StrCat(path, " with sequence_length ", info.sequence_length),
                      absl::StrCat(first.sequence_length, " as in ", first_path,
                                   "; pack it again with that pack.sequence_length"));
  }
  if (info.supervised != first.supervised) {
    return BadDataset(index, absl::StrCat(path, info.supervised ? " with answers" : " of text"),
                      absl::StrCat(first.supervised ? "a supervised dataset" : "a dataset of text",
                                   " as ", first_path, " is"));
  }
  // A model has one rule for the first token of a text.
  if (info.begin_with_bos != first.begin_with_bos) {
    return BadDataset(index,
                      absl::StrCat(path, info.begin_with_bos ? " with BOS before each document"
                                                             : " without BOS before each document"),
                      absl::StrCat("the same as in ", first_path,
                                   "; submit it again with tokenizer.begin_with_bos ",
                                   first.begin_with_bos ? "true" : "false"));
  }
  ASSIGN_OR_RETURN(const FileSummary mine, SummarizeFile(fs::path(path) / kTokenizerFile));
  ASSIGN_OR_RETURN(const FileSummary theirs, SummarizeFile(fs::path(first_path) / kTokenizerFile));
  if (mine.crc32c == theirs.crc32c && mine.bytes == theirs.bytes) return absl::OkStatus();
  return BadDataset(index, absl::StrCat(path, " with another tokenizer"),
                    absl::StrCat("that of ", first_path,
                                 "; submit it again with tokenizer.model_path set to the latter's ",
                                 kTokenizerFile));
}

absl::Status CheckShares(const std::string& field, const std::vector<double>& shares) {
  double sum = 0;
  for (size_t d = 0; d < shares.size(); ++d) {
    if (!(shares[d] >= 0 && shares[d] <= 1 + kShareTolerance)) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": got the share ", shares[d],
                                                     " for dataset ", d, ", expected 0 to 1"));
    }
    sum += shares[d];
  }
  if (std::abs(sum - 1) <= kShareTolerance) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": got shares that sum to ", sum,
                                                 ", expected 1",
                                                 sum == 0 ? "; every share is 0" : ""));
}

std::vector<double> SharesOf(const v1::RunSpec& spec) {
  std::vector<double> shares;
  for (const v1::MixtureDataset& entry : spec.datasets()) shares.push_back(entry.share());
  return shares;
}

// Checks that each dataset has one unit, and that shares are not mixed with amounts. Returns
// whether the units are shares.
absl::StatusOr<bool> UsesShares(const v1::RunSpec& spec) {
  const bool shares = spec.datasets(0).has_share();
  for (int d = 0; d < spec.datasets_size(); ++d) {
    const v1::MixtureDataset& entry = spec.datasets(d);
    const int units = int{entry.has_share()} + int{entry.has_tokens()} + int{entry.has_epochs()};
    if (units != 1) {
      return BadDataset(d, absl::StrCat(units, " of share, tokens and epochs"), "exactly one");
    }
    if (entry.has_share() != shares) {
      return BadDataset(
          d, entry.has_share() ? "a share" : "tokens or epochs",
          shares ? "a share as for datasets[0]" : "tokens or epochs as for datasets[0]");
    }
    if (entry.has_max_repetitions() && !(entry.max_repetitions() > 0)) {
      return BadDataset(d, absl::StrCat("max_repetitions ", entry.max_repetitions()),
                        "a number above 0");
    }
  }
  return shares;
}

// Replaces tokens and epochs by shares, and sets num_steps to what they take together.
absl::Status ConvertAmounts(const StepSize& size, std::span<const DatasetInfo> infos,
                            v1::RunSpec* spec) {
  if (spec->has_num_steps() || spec->has_length()) {
    return absl::InvalidArgumentError(
        "num_steps: datasets with tokens or epochs determine the length of the run; "
        "leave it unset, or give the datasets shares");
  }
  std::vector<double> instances;
  double total = 0;
  for (int d = 0; d < spec->datasets_size(); ++d) {
    const v1::MixtureDataset& entry = spec->datasets(d);
    instances.push_back(
        entry.has_tokens()
            ? std::ceil(entry.tokens() / static_cast<double>(size.sequence_length))
            : std::round(entry.epochs() * static_cast<double>(infos[d].num_instances)));
    if (!(instances.back() >= 0) || !std::isfinite(instances.back())) {
      return BadDataset(d, absl::StrCat(entry.has_tokens() ? entry.tokens() : entry.epochs()),
                        "a number of at least 0");
    }
    total += instances.back();
  }
  if (!(total > 0)) {
    return absl::InvalidArgumentError(
        "datasets: got 0 tokens of every dataset, expected more of at least one");
  }
  spec->set_num_steps(StepsToRead(*spec, total));
  for (int d = 0; d < spec->datasets_size(); ++d) {
    v1::MixtureDataset* const entry = spec->mutable_datasets(d);
    entry->clear_tokens();
    entry->clear_epochs();
    entry->set_share(instances[d] / total);
  }
  return absl::OkStatus();
}

// Returns the first step before which the run has read more than `limit` instances of a dataset.
int64_t StepOfExcess(const MixtureSchedule& schedule, size_t dataset, double limit, int64_t steps) {
  int64_t low = 0, high = steps;  // exceeded after `high` steps, not after `low`
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const auto count = static_cast<double>(schedule.CountsBefore(middle)[dataset]);
    (count > limit ? high : low) = middle;
  }
  return high;
}

absl::Status CheckRepetitions(std::span<const DatasetInfo> infos, const v1::RunSpec& spec) {
  const MixtureSchedule schedule = ScheduleOfMixture(spec, infos);
  const std::vector<int64_t> counts = schedule.CountsBefore(spec.num_steps());
  // Amounts are rounded to whole steps, so only the last step may exceed them, and to whole
  // instances.
  const std::vector<int64_t> before_last = schedule.CountsBefore(spec.num_steps() - 1);
  const double slack = spec.datasets_size();
  for (int d = 0; d < spec.datasets_size(); ++d) {
    const v1::MixtureDataset& entry = spec.datasets(d);
    if (!entry.has_max_repetitions()) continue;
    const double limit = entry.max_repetitions() * static_cast<double>(infos[d].num_instances);
    if (static_cast<double>(before_last[d]) <= limit + slack) continue;
    const int64_t step = StepOfExcess(schedule, d, limit, spec.num_steps());
    return absl::InvalidArgumentError(
        absl::StrCat(FieldOf(d), ": ", entry.dataset(), " is exhausted at step ", step, " of ",
                     spec.num_steps(), ": max_repetitions is ", entry.max_repetitions(),
                     " and its ", Counted(infos[d].num_instances, "instance"),
                     infos[d].num_instances == 1 ? " is needed " : " are needed ",
                     static_cast<double>(counts[d]) / static_cast<double>(infos[d].num_instances),
                     " times; lower its share, raise max_repetitions or shorten the run"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<DatasetInfo>> ReadDatasets(v1::RunSpec* spec) {
  std::vector<DatasetInfo> infos;
  if (spec->datasets().empty()) {
    ASSIGN_OR_RETURN(*spec->mutable_dataset_dir(),
                     AbsoluteDataset("dataset_dir", spec->dataset_dir()));
    ASSIGN_OR_RETURN(infos.emplace_back(), ReadOneDataset("dataset_dir", spec->dataset_dir()));
    return infos;
  }
  std::set<std::string> seen;
  for (int d = 0; d < spec->datasets_size(); ++d) {
    std::string* const path = spec->mutable_datasets(d)->mutable_dataset();
    ASSIGN_OR_RETURN(*path, AbsoluteDataset(FieldOf(d), *path));
    // Through a link it would be read a second time in the same order.
    std::error_code ignored;
    if (!seen.insert(fs::weakly_canonical(*path, ignored).string()).second) {
      return BadDataset(d, *path, "each dataset once");
    }
    ASSIGN_OR_RETURN(infos.emplace_back(), ReadOneDataset(FieldOf(d), *path));
    RETURN_IF_ERROR(CheckLike(spec->datasets(0).dataset(), infos[0], d, *path, infos[d]));
  }
  const std::string& first = spec->datasets(0).dataset();
  if (!spec->dataset_dir().empty() &&
      fs::absolute(spec->dataset_dir()).lexically_normal() != fs::path(first)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset_dir: got ", spec->dataset_dir(),
                     " besides datasets, expected one of them; leave it unset for a mixture"));
  }
  spec->set_dataset_dir(first);
  return infos;
}

DatasetInfo CombinedInfo(std::span<const DatasetInfo> datasets) {
  DatasetInfo all = datasets[0];
  all.num_instances = 0;
  for (const DatasetInfo& info : datasets) all.num_instances += info.num_instances;
  return all;
}

absl::Status FillMixture(const StepSize& size, std::span<const DatasetInfo> infos,
                         v1::RunSpec* spec) {
  if (spec->datasets().empty()) {
    if (spec->share_phases().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "share_phases: got phases without datasets, expected a mixture in datasets");
  }
  ASSIGN_OR_RETURN(const bool shares, UsesShares(*spec));
  if (!shares && !spec->share_phases().empty()) {
    return absl::InvalidArgumentError(
        "share_phases: got phases with datasets in tokens or epochs, which the phases would not "
        "keep to, expected shares");
  }
  if (!shares) RETURN_IF_ERROR(ConvertAmounts(size, infos, spec));
  return CheckShares("datasets", SharesOf(*spec));
}

absl::Status FillSharePhases(const StepSize& size, std::span<const DatasetInfo> infos,
                             v1::RunSpec* spec) {
  if (spec->datasets().empty()) return absl::OkStatus();
  StepSize from_start = size;
  from_start.growth = BatchScheduleOf(*spec);
  int64_t before = 0;
  for (int p = 0; p < spec->share_phases_size(); ++p) {
    v1::SharePhase* const phase = spec->mutable_share_phases(p);
    const std::string field = absl::StrCat("share_phases[", p, "]");
    ASSIGN_OR_RETURN(*phase->mutable_after(),
                     ResolveLength(field + ".after", phase->after(), from_start));
    const int64_t after = StepsOf(phase->after(), spec->num_steps());
    if (after <= before || after >= spec->num_steps()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".after: got step ", after, ", expected ", before + 1, " to ",
                       spec->num_steps() - 1, ", after the phase before and within the run"));
    }
    before = after;
    if (phase->shares_size() != spec->datasets_size()) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".shares: got ", phase->shares_size(),
                                                     " shares, expected one for each of the ",
                                                     spec->datasets_size(), " datasets"));
    }
    RETURN_IF_ERROR(
        CheckShares(field + ".shares", {phase->shares().begin(), phase->shares().end()}));
  }
  return CheckRepetitions(infos, *spec);
}

MixtureSchedule ScheduleOfMixture(const v1::RunSpec& resolved, std::span<const DatasetInfo> infos) {
  std::vector<MixtureSchedule::Source> sources;
  for (const DatasetInfo& info : infos) sources.push_back({info.key, info.num_instances});
  const std::vector<double> shares = infos.size() == 1 ? std::vector{1.0} : SharesOf(resolved);
  std::vector<MixtureSchedule::Phase> phases = {{.begin_step = 0, .shares = shares}};
  for (const v1::SharePhase& phase : resolved.share_phases()) {
    phases.push_back({.begin_step = StepsOf(phase.after(), resolved.num_steps()),
                      .shares = {phase.shares().begin(), phase.shares().end()}});
  }
  return {sources, phases, resolved.seed(), BatchScheduleOf(resolved)};
}

std::string DataKey(const v1::RunSpec& resolved, std::span<const DatasetInfo> infos) {
  if (resolved.datasets().empty()) return infos[0].key;
  FieldDigest digest;
  for (const DatasetInfo& info : infos) digest.Add(info.key);
  for (const v1::MixtureDataset& entry : resolved.datasets()) {
    digest.Add(absl::StrFormat("%.17g", entry.share()));
  }
  return absl::StrCat("mixture-", digest.Hex());
}

}  // namespace braid
