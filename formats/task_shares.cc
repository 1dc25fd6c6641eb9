#include "formats/task_shares.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace braid {
namespace {

constexpr char kTaskSharesKey[] = "task_shares";
constexpr int kReportDepth = 8;

}  // namespace

void PutTaskShares(const std::vector<TaskShare>& shares, nlohmann::json* report) {
  for (const TaskShare& one : shares) (*report)[kTaskSharesKey][one.task] = one.share;
}

absl::StatusOr<std::vector<TaskShare>> ReadTaskShares(const std::filesystem::path& dataset_dir) {
  const std::filesystem::path path = dataset_dir / kSupervisedReportName;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::vector<TaskShare>();
  RETURN_IF_ERROR(text.status());
  const absl::StatusOr<nlohmann::json> report = ParseStrictJsonObject(*text, kReportDepth, path);
  if (!report.ok()) return absl::DataLossError(report.status().message());
  std::vector<TaskShare> shares;
  if (!report->contains(kTaskSharesKey)) return shares;
  const nlohmann::json& stored = (*report)[kTaskSharesKey];
  for (const auto& [task, share] : stored.items()) {
    if (share.is_number()) shares.push_back({task, share.get<double>()});
    if (share.is_number() && shares.back().share > 0 && shares.back().share < 1) continue;
    return absl::DataLossError(
        absl::StrCat(path.string(), ": ", kTaskSharesKey, ".", task, ": got ", share.dump(),
                     ", expected a number above 0 and less than 1; prepare the dataset again"));
  }
  return shares;
}

}  // namespace braid
