#include "pipeline/stages/decontamination.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status_macros.h"
#include "formats/contamination.h"
#include "pipeline/corpus/evaluation_texts.h"
#include "pipeline/ordering/evaluation_overlap.h"

namespace braid {
namespace {

constexpr char kContaminatedDocumentsName[] = "contaminated_documents.jsonl";

absl::StatusOr<EvaluationTexts> ReadTexts(const v1::DecontaminateConfig& config) {
  return ReadEvaluationTexts(
      std::vector<std::string>(config.paths().begin(), config.paths().end()));
}

Contamination Summarize(const EvaluationTexts& texts, const EvaluationOverlap& overlap,
                        bool report_only) {
  Contamination contamination{.report_only = report_only,
                              .num_documents = static_cast<int64_t>(overlap.matches.size()),
                              .files = {},
                              .runs = {}};
  for (const EvaluationFile& file : texts.files) {
    contamination.files.push_back({.path = file.path, .bytes = file.bytes, .crc32c = file.crc32c});
  }
  for (size_t i = 0; i < texts.texts.size(); ++i) {
    ContaminationFile& file = contamination.files[texts.texts[i].file];
    ++(overlap.has_runs[i] ? file.num_texts : file.num_short_texts);
    file.num_matched_texts += overlap.matched[i] ? 1 : 0;
  }
  for (const EvaluationMatch& match : overlap.matches) {
    for (const uint32_t file : match.files) ++contamination.files[file].num_matched_documents;
  }
  if (report_only) contamination.runs = overlap.runs;
  return contamination;
}

absl::Status StoreMatches(const DocumentStore& documents, const EvaluationTexts& texts,
                          const EvaluationOverlap& overlap, StageWriter* stage) {
  std::string lines;
  for (const EvaluationMatch& match : overlap.matches) {
    const nlohmann::json line = {{"document", std::string(documents.id(match.document))},
                                 {"text", texts.PlaceOf(match.text)},
                                 {"words", match.words}};
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return stage->AddText(kContaminatedDocumentsName, lines,
                        static_cast<int64_t>(overlap.matches.size()));
}

}  // namespace

absl::Status AddDecontamination(const v1::DecontaminateConfig& config, StageKey* key) {
  if (config.paths().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const EvaluationTexts texts, ReadTexts(config));
  key->Add("report_only", config.report_only());
  for (const EvaluationFile& file : texts.files) {
    key->Add("evaluation_file", file.path)
        .Add("bytes", file.bytes)
        .Add("crc32c", static_cast<int64_t>(file.crc32c));
  }
  return absl::OkStatus();
}

absl::Status Decontaminate(const DocumentStore& documents, const v1::DecontaminateConfig& config,
                           const ProgressCallback& progress, std::vector<uint8_t>* keep,
                           StageWriter* stage) {
  if (config.paths().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const EvaluationTexts texts, ReadTexts(config));
  std::vector<uint32_t> candidates;
  for (uint32_t i = 0; i < keep->size(); ++i) {
    if ((*keep)[i] != 0) candidates.push_back(i);
  }
  std::vector<EvaluationPassage> passages;
  for (const EvaluationText& text : texts.texts) passages.push_back({text.text, text.file});
  ASSIGN_OR_RETURN(const EvaluationOverlap overlap,
                   FindEvaluationOverlap(documents, candidates, passages, progress));
  if (!config.report_only()) {
    for (const EvaluationMatch& match : overlap.matches) (*keep)[match.document] = 0;
  }
  const Contamination contamination = Summarize(texts, overlap, config.report_only());
  ASSIGN_OR_RETURN(const std::vector<FileSummary> files,
                   WriteContamination(stage->directory(), contamination));
  stage->Add(files, contamination.num_documents);
  return StoreMatches(documents, texts, overlap, stage);
}

std::optional<ContaminatedDocument> FindContaminated(const std::filesystem::path& directory,
                                                     std::string_view id) {
  std::ifstream file(directory / kContaminatedDocumentsName, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("document", "") != id) continue;
    return ContaminatedDocument{json.value("text", ""), json.value("words", "")};
  }
  return std::nullopt;
}

}  // namespace braid
