#include "formats/contamination.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/npy.h"
#include "formats/word_runs.h"

namespace braid {
namespace {

constexpr char kContaminationName[] = "contamination.json";
constexpr char kContaminatedRunsName[] = "contaminated_runs.npy";

nlohmann::json FileJson(const ContaminationFile& file) {
  return {{"path", file.path},
          {"bytes", file.bytes},
          {"crc32c", file.crc32c},
          {"num_texts", file.num_texts},
          {"num_short_texts", file.num_short_texts},
          {"num_matched_texts", file.num_matched_texts},
          {"num_matched_documents", file.num_matched_documents}};
}

ContaminationFile FileOf(const nlohmann::json& json) {
  return {.path = json.at("path").get<std::string>(),
          .bytes = json.at("bytes").get<int64_t>(),
          .crc32c = json.at("crc32c").get<uint32_t>(),
          .num_texts = json.at("num_texts").get<int64_t>(),
          .num_short_texts = json.at("num_short_texts").get<int64_t>(),
          .num_matched_texts = json.at("num_matched_texts").get<int64_t>(),
          .num_matched_documents = json.at("num_matched_documents").get<int64_t>()};
}

absl::StatusOr<Contamination> ParseContamination(const std::filesystem::path& path,
                                                 const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    Contamination contamination;
    contamination.report_only = json.at("report_only").get<bool>();
    contamination.num_documents = json.at("num_documents").get<int64_t>();
    for (const nlohmann::json& file : json.at("files")) {
      contamination.files.push_back(FileOf(file));
    }
    return contamination;
  } catch (const nlohmann::json::exception&) {
    return absl::DataLossError(
        absl::StrCat(path.string(), ": malformed; submit the corpus again to rebuild it"));
  }
}

}  // namespace

bool Contamination::Covers(int64_t bytes, uint32_t crc32c) const {
  return std::ranges::any_of(files, [&](const ContaminationFile& file) {
    return file.bytes == bytes && file.crc32c == crc32c;
  });
}

bool Contamination::IsClean(std::string_view text) const {
  if (runs.empty()) return true;
  for (WordRuns run(NormalizeText(text)); run.Next();) {
    if (std::ranges::binary_search(runs, run.hash())) return false;
  }
  return true;
}

absl::StatusOr<std::vector<FileSummary>> WriteContamination(const std::filesystem::path& directory,
                                                            const Contamination& contamination) {
  nlohmann::json json = {{"report_only", contamination.report_only},
                         {"num_documents", contamination.num_documents},
                         {"files", nlohmann::json::array()}};
  for (const ContaminationFile& file : contamination.files) json["files"].push_back(FileJson(file));
  const std::filesystem::path path = directory / kContaminationName;
  const auto replace = nlohmann::json::error_handler_t::replace;
  RETURN_IF_ERROR(WriteFileAtomically(path, json.dump(2, ' ', false, replace) + "\n"));
  std::vector<FileSummary> summaries(2);
  ASSIGN_OR_RETURN(summaries[0], SummarizeFile(path));
  const std::vector<int64_t> runs(contamination.runs.begin(), contamination.runs.end());
  const auto num_runs = static_cast<int64_t>(runs.size());
  RETURN_IF_ERROR(
      WriteNpy<int64_t>(directory / kContaminatedRunsName, {&num_runs, 1}, runs, &summaries[1]));
  return summaries;
}

absl::StatusOr<std::optional<Contamination>> ReadContamination(
    const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kContaminationName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(Contamination contamination, ParseContamination(path, text));
  ASSIGN_OR_RETURN(const auto runs, NpyArray<int64_t>::Open(directory / kContaminatedRunsName));
  contamination.runs.assign(runs.values().begin(), runs.values().end());
  if (!std::ranges::is_sorted(contamination.runs)) {
    return absl::DataLossError(absl::StrCat((directory / kContaminatedRunsName).string(),
                                            ": got hashes out of order, expected ascending ones; "
                                            "submit the corpus again to rebuild it"));
  }
  return contamination;
}

}  // namespace braid
