#include "pipeline/supervised/supervised_dataset.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/indexed_dataset.h"
#include "formats/packed_dataset.h"
#include "formats/supervised_spans.h"
#include "formats/task_shares.h"
#include "pipeline/stages/provenance.h"
#include "pipeline/store/stage_key.h"

namespace braid {
namespace {

constexpr int32_t kSupervisedFormatVersion = 2;
constexpr std::array<std::string_view, 3> kLossNames = {"ANSWERS", "LAST_ANSWER", "EVERYTHING"};

std::string_view LossName(LossOn loss_on) { return kLossNames[static_cast<size_t>(loss_on)]; }

// Sequences of examples as an indexed dataset with its spans and labels.
struct WrittenSequences {
  std::vector<SupervisedSpan> spans;
  std::vector<float> labels;       // one for each span, or none
  std::vector<FileSummary> files;  // .bin and .idx
  FileSummary spans_file;
  std::optional<FileSummary> labels_file;
  int64_t num_rows = 0;
  std::vector<ProvenanceSpan> provenance;  // by document number
};

// Returns the document number of each example: copies of an example, which are adjacent, are one
// document.
std::vector<uint32_t> DocumentsOf(const PackedExamples& part) {
  std::vector<uint32_t> documents(part.places.size());
  for (size_t i = 1; i < documents.size(); ++i) {
    documents[i] = documents[i - 1] + (part.places[i] == part.places[i - 1] ? 0 : 1);
  }
  return documents;
}

std::string_view AsBytes(const std::vector<int32_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)};
}

// Appends one sequence, padded with EOS, and its spans.
absl::Status AddSequence(const SupervisedDataset& dataset, const PackedExamples& part,
                         std::span<const uint32_t> documents, std::span<const float> labels,
                         int32_t instance, std::span<const uint32_t> examples,
                         IndexedDatasetWriter* writer, WrittenSequences* written) {
  std::vector<int32_t> tokens;
  for (const uint32_t number : examples) {
    const EncodedExample& example = part.examples[number];
    const auto begin = static_cast<int32_t>(tokens.size());
    for (const TokenRange& range : example.targets) {
      written->spans.push_back({instance, begin, begin + range.begin, begin + range.end});
    }
    if (!labels.empty()) written->labels.push_back(labels[number]);
    written->provenance.push_back({documents[number], 0, static_cast<uint32_t>(instance), begin,
                                   static_cast<int32_t>(example.tokens.size())});
    tokens.insert(tokens.end(), example.tokens.begin(), example.tokens.end());
  }
  tokens.resize(static_cast<size_t>(dataset.settings.sequence_length + 1),
                dataset.tokenizer.eos_id());
  RETURN_IF_ERROR(writer->AddSequence(tokens));
  writer->EndDocument();
  return absl::OkStatus();
}

// Examples of each sequence.
using Sequences = std::vector<std::vector<uint32_t>>;

// Writes sequences of a part.
absl::StatusOr<WrittenSequences> WriteSequences(const SupervisedDataset& dataset,
                                                const PackedExamples& part,
                                                const Sequences& sequences,
                                                const std::filesystem::path& prefix,
                                                const std::filesystem::path& spans_path) {
  WrittenSequences written;
  const std::vector<uint32_t> documents = DocumentsOf(part);
  std::vector<float> labels;
  if (dataset.plan.labels) labels = LabelNumbers(*dataset.plan.labels, part.examples);
  ASSIGN_OR_RETURN(const auto writer,
                   IndexedDatasetWriter::Create(prefix, dataset.tokenizer.vocab_size()));
  for (size_t i = 0; i < sequences.size(); ++i) {
    RETURN_IF_ERROR(AddSequence(dataset, part, documents, labels, static_cast<int32_t>(i),
                                sequences[i], writer.get(), &written));
  }
  ASSIGN_OR_RETURN(written.files, writer->Commit());
  ASSIGN_OR_RETURN(const IndexedDataset stored, IndexedDataset::Open(prefix));
  ASSIGN_OR_RETURN(written.spans_file, WriteSpans(spans_path, written.spans, stored));
  written.num_rows = std::ssize(written.spans);
  if (!dataset.plan.labels) return written;
  ASSIGN_OR_RETURN(written.labels_file, WriteLabels(LabelsPath(spans_path), written.labels));
  return written;
}

// Writes where the examples of a part come from, to a directory of the stage.
absl::Status WriteExampleProvenance(const PackedExamples& part, const WrittenSequences& written,
                                    const std::filesystem::path& directory, StageWriter* stage) {
  RETURN_IF_ERROR(MakeDirectories(directory));
  std::vector<std::string> places = part.places;
  places.erase(std::unique(places.begin(), places.end()), places.end());
  ASSIGN_OR_RETURN(const std::vector<FileSummary> files,
                   WriteProvenance(directory, written.provenance, places));
  stage->Add(files, std::ssize(written.provenance),
             directory.lexically_relative(stage->directory()).string());
  return absl::OkStatus();
}

absl::Status WriteHeldoutExamples(const SupervisedDataset& dataset, StageWriter* stage) {
  const PackedExamples& part = dataset.plan.validation;
  const std::filesystem::path directory = stage->directory() / "heldout";
  RETURN_IF_ERROR(MakeDirectories(directory));
  std::map<std::string, Sequences> by_domain;
  for (size_t i = 0; i < part.sequences.size(); ++i) {
    by_domain[part.domains[i]].push_back(part.sequences[i]);
  }
  for (const auto& [domain, sequences] : by_domain) {
    ASSIGN_OR_RETURN(const WrittenSequences written,
                     WriteSequences(dataset, part, sequences, directory / domain,
                                    HeldoutSpansPath(directory, domain)));
    stage->Add(written.files, std::ssize(sequences), "heldout");
    stage->Add(written.spans_file, written.num_rows, "heldout");
    if (written.labels_file) stage->Add(*written.labels_file, written.num_rows, "heldout");
    RETURN_IF_ERROR(WriteExampleProvenance(
        part, written, HeldoutProvenancePath(stage->directory(), domain), stage));
  }
  return absl::OkStatus();
}

nlohmann::json SourceJson(const RecordSource& source, int64_t num_examples) {
  nlohmann::json entry = {
      {"path", source.path}, {"format", source.format}, {"num_records", source.num_records}};
  if (source.weight != 1) {
    entry["weight"] = source.weight;
    entry["num_examples"] = num_examples;
  }
  if (source.domain != kValidationDomain) entry["domain"] = source.domain;
  return entry;
}

nlohmann::json ReportOf(const SupervisedDataset& dataset) {
  const SupervisedCounts& counts = dataset.plan.counts;
  nlohmann::json sources = nlohmann::json::array();
  std::vector<TaskShare> shares;
  for (const RecordSource& source : dataset.sources) {
    sources.push_back(SourceJson(source, counts.of_source[sources.size()]));
    if (source.task_share > 0) shares.push_back({source.shared_task, source.task_share});
  }
  nlohmann::json report = {{"sources", sources},
                           {"template", dataset.settings.encoding.chat.name},
                           {"loss_on", LossName(dataset.settings.encoding.loss_on)},
                           {"packed", dataset.settings.pack},
                           {"num_records", counts.num_records},
                           {"num_examples", dataset.plan.training.examples.size()},
                           {"num_validation_examples", dataset.plan.validation.examples.size()},
                           {"num_tokens", counts.num_tokens},
                           {"num_targets", counts.num_targets},
                           {"num_longest", counts.num_longest},
                           {"num_cut", counts.num_cut},
                           {"num_cut_tokens", counts.num_cut_tokens},
                           {"num_cut_answers", counts.num_cut_answers},
                           {"num_control_texts", counts.num_control_texts},
                           {"num_duplicates", counts.num_duplicates},
                           {"num_evaluated", counts.num_evaluated},
                           {"rejected", counts.rejected},
                           {"filled", dataset.plan.filled}};
  PutTaskShares(shares, &report);
  if (dataset.plan.labels) {
    report["regression"] = dataset.plan.labels->regression;
    report["classes"] = dataset.plan.labels->classes;
  }
  return report;
}

absl::Status WriteReports(const SupervisedDataset& dataset, StageWriter* stage) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  RETURN_IF_ERROR(stage->AddText(kSupervisedReportName,
                                 ReportOf(dataset).dump(2, ' ', false, kReplace) + "\n", 1));
  std::string rejects;
  for (const RejectedRecord& record : dataset.plan.rejected) {
    const nlohmann::json line = {
        {"place", record.place}, {"reason", record.reason}, {"detail", record.detail}};
    absl::StrAppend(&rejects, line.dump(-1, ' ', false, kReplace), "\n");
  }
  return stage->AddText(kSupervisedRejectsName, rejects, std::ssize(dataset.plan.rejected));
}

void AddExamples(const PackedExamples& part, StageKey* key) {
  for (size_t i = 0; i < part.examples.size(); ++i) {
    key->Add("place", part.places[i]).Add("tokens", AsBytes(part.examples[i].tokens));
    if (!part.examples[i].label.empty()) key->Add("label", part.examples[i].label);
    for (const TokenRange& range : part.examples[i].targets) {
      key->Add("begin", range.begin).Add("end", range.end);
    }
  }
}

// Returns the labels of the rows of spans.npy as text; none for a dataset without labels.
absl::StatusOr<std::vector<std::string>> LabelsOfRows(const std::filesystem::path& dataset_dir,
                                                      std::span<const SupervisedSpan> spans) {
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  std::vector<std::string> texts;
  if (!info.labeled()) return texts;
  ASSIGN_OR_RETURN(const std::vector<float> labels,
                   ReadLabels(LabelsPath(dataset_dir / kSpansName), std::ssize(spans),
                              std::ssize(info.classes)));
  for (const float label : labels) {
    texts.push_back(info.regression ? absl::StrCat(label)
                                    : info.classes[static_cast<size_t>(label)]);
  }
  return texts;
}

}  // namespace

std::filesystem::path HeldoutProvenancePath(const std::filesystem::path& dataset_dir,
                                            const std::string& domain) {
  return dataset_dir / "heldout" / absl::StrCat(domain, ".provenance");
}

std::string SupervisedKey(const SupervisedDataset& dataset) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  StageKey key("supervised", kSupervisedFormatVersion);
  key.Add("name", dataset.name)
      .Add("tokenizer", dataset.tokenizer_bytes)
      .Add("sequence_length", dataset.settings.sequence_length)
      .Add("pack", dataset.settings.pack)
      .Add("seed", dataset.settings.seed)
      .Add("report", ReportOf(dataset).dump(-1, ' ', true, kReplace));
  AddExamples(dataset.plan.training, &key);
  key.Add("validation", std::ssize(dataset.plan.validation.examples));
  AddExamples(dataset.plan.validation, &key);
  for (const RejectedRecord& record : dataset.plan.rejected) {
    key.Add("rejected", record.place).Add("reason", record.reason);
  }
  return key.Hex();
}

DatasetInfo DescribeSupervised(const SupervisedDataset& dataset, const std::string& key) {
  const PackedExamples& training = dataset.plan.training;
  const auto num_heldout = static_cast<int64_t>(dataset.plan.validation.examples.size());
  const Tokenizer& tokenizer = dataset.tokenizer;
  const std::optional<int32_t>& start = dataset.settings.encoding.start_id;
  const int64_t num_instances = std::ssize(training.sequences);
  const ExampleLabels labels = dataset.plan.labels.value_or(ExampleLabels());
  const std::set<std::string> domains(dataset.plan.validation.domains.begin(),
                                      dataset.plan.validation.domains.end());
  return {.name = dataset.name,
          .key = key,
          .order = "RANDOM",
          .sequence_length = dataset.settings.sequence_length,
          .vocab_size = tokenizer.vocab_size(),
          .eos_id = tokenizer.eos_id(),
          .num_instances = num_instances,
          .num_tokens = num_instances * (dataset.settings.sequence_length + 1),
          .num_documents = int64_t{DocumentsOf(training).back()} + 1,
          .num_heldout_documents = num_heldout,
          .domains = {domains.begin(), domains.end()},
          .seed = dataset.settings.seed,
          .begin_with_bos = start.has_value() && start != tokenizer.eos_id(),
          .supervised = true,
          .num_examples = std::ssize(training.examples),
          .classes = labels.classes,
          .regression = labels.regression};
}

absl::Status WriteSupervised(const SupervisedDataset& dataset, const std::string& key,
                             StageWriter* stage) {
  const PackedExamples& training = dataset.plan.training;
  ASSIGN_OR_RETURN(
      const WrittenSequences written,
      WriteSequences(dataset, training, training.sequences, stage->directory() / "instances",
                     stage->directory() / kSpansName));
  stage->Add(written.files, std::ssize(training.sequences));
  stage->Add(written.spans_file, written.num_rows);
  if (written.labels_file) stage->Add(*written.labels_file, written.num_rows);
  RETURN_IF_ERROR(WriteHeldoutExamples(dataset, stage));
  RETURN_IF_ERROR(
      WriteExampleProvenance(training, written, stage->directory() / "provenance", stage));
  RETURN_IF_ERROR(stage->AddText("tokenizer.model", dataset.tokenizer_bytes, 1));
  RETURN_IF_ERROR(WriteReports(dataset, stage));
  ASSIGN_OR_RETURN(const FileSummary summary,
                   WriteDatasetInfo(stage->directory(), DescribeSupervised(dataset, key)));
  stage->Add(summary, 1);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredExample>> ReadStoredExamples(
    const std::filesystem::path& dataset_dir, int64_t instance) {
  ASSIGN_OR_RETURN(const IndexedDataset instances, IndexedDataset::Open(dataset_dir / "instances"));
  ASSIGN_OR_RETURN(const auto spans, ReadSpans(dataset_dir / kSpansName, instances));
  ASSIGN_OR_RETURN(const Provenance provenance, Provenance::Open(dataset_dir / "provenance"));
  if (instance < 0 || instance >= instances.num_sequences()) {
    return absl::OutOfRangeError(absl::StrCat("instance: got ", instance, ", expected 0 to ",
                                              instances.num_sequences() - 1, ", the instances of ",
                                              dataset_dir.string()));
  }
  const std::vector<int32_t> tokens = instances.Read(instance);
  std::vector<StoredExample> examples;
  ASSIGN_OR_RETURN(const std::vector<std::string> labels, LabelsOfRows(dataset_dir, spans));
  for (const ProvenanceSpan& span : provenance.Instance(static_cast<uint32_t>(instance))) {
    const int64_t end = int64_t{span.instance_offset} + span.length;
    if (span.instance_offset < 0 || span.length < 1 || end > std::ssize(tokens) ||
        span.document >= provenance.num_documents()) {
      return absl::DataLossError(absl::StrCat((dataset_dir / "provenance").string(),
                                              ": got tokens outside of instance ", instance,
                                              "; prepare the supervised dataset again"));
    }
    StoredExample& example = examples.emplace_back();
    example.place = provenance.document_id(span.document);
    example.begin = span.instance_offset;
    example.tokens.assign(tokens.begin() + span.instance_offset, tokens.begin() + end);
    for (const SupervisedSpan& row : spans) {
      if (row.instance != instance || row.begin != span.instance_offset) continue;
      if (!labels.empty()) example.label = labels[static_cast<size_t>(&row - spans.data())];
      example.targets.push_back({row.answer_begin - row.begin, row.end - row.begin});
    }
  }
  return examples;
}

}  // namespace braid
