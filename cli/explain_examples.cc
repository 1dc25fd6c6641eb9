#include "cli/explain_examples.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/json_fields.h"
#include "base/nearest_word.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "cli/finetune_preview.h"
#include "formats/packed_dataset.h"
#include "formats/tokenizer.h"
#include "pipeline/stages/provenance.h"
#include "pipeline/supervised/supervised_dataset.h"
#include "runs/mixture_spec.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

constexpr int64_t kPlacesAround = 2000;

nlohmann::json ExamplesJson(const std::vector<StoredExample>& examples,
                            const Tokenizer& tokenizer) {
  nlohmann::json list = nlohmann::json::array();
  for (const StoredExample& example : examples) {
    nlohmann::json targets = nlohmann::json::array();
    for (const TokenRange& range : example.targets) targets.push_back({range.begin, range.end});
    list.push_back({{"place", example.place},
                    {"begin", example.begin},
                    {"tokens", example.tokens},
                    {"targets", targets},
                    {"text", tokenizer.Decode(example.tokens)}});
    if (!example.label.empty()) list.back()["label"] = example.label;
  }
  return list;
}

struct RunAndSpikes {
  v1::Run run;
  std::vector<v1::LossSpike> spikes;
};

// Returns the run that `id` names, by id or directory; nullopt for any other id.
absl::StatusOr<std::optional<RunAndSpikes>> RunNamed(Session& session, const std::string& id) {
  std::error_code error;
  RunAndSpikes named;
  if (absl::StartsWith(id, "run-")) {
    ASSIGN_OR_RETURN(TrainingClient client, session.Training());
    absl::StatusOr<v1::Run> run = client.GetRun(id);
    if (run.ok()) {
      named.run = *std::move(run);
      ASSIGN_OR_RETURN(named.spikes, SpikesOfRun(client, named.run));
      return named;
    }
    // A run comes before a directory whose name looks like an id.
    if (!absl::IsNotFound(run.status()) || !std::filesystem::is_directory(id, error)) {
      return run.status();
    }
  }
  const RunDirectory directory(id);
  if (!std::filesystem::exists(directory.spec(), error)) return std::nullopt;
  named.run.set_id(id);
  ASSIGN_OR_RETURN(*named.run.mutable_spec(), directory.ReadSpec());
  ASSIGN_OR_RETURN(const std::vector<v1::StepMetrics> steps, directory.ReadMetrics(0));
  for (const v1::StepMetrics& step : steps) {
    if (step.has_spike()) named.spikes.push_back(step.spike());
  }
  if (!steps.empty()) *named.run.mutable_latest() = steps.back();
  return named;
}

// A held-out example in a sequence of a domain.
struct HeldoutPlace {
  std::string domain;
  ProvenanceSpan span;
};

// Returns where a held-out example is; none for an unknown place. Datasets of earlier versions do
// not know where their held-out examples come from.
absl::StatusOr<std::vector<HeldoutPlace>> FindHeldout(const SupervisedSubject& subject,
                                                      const std::string& place) {
  std::vector<HeldoutPlace> found;
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(subject.dataset_dir));
  for (const std::string& domain : info.domains) {
    const auto provenance = Provenance::Open(HeldoutProvenancePath(subject.dataset_dir, domain));
    if (absl::IsNotFound(provenance.status())) continue;
    RETURN_IF_ERROR(provenance.status());
    const std::optional<uint32_t> example = provenance->FindDocument(place);
    if (!example.has_value()) continue;
    for (const ProvenanceSpan& span : provenance->Document(*example)) {
      found.push_back({domain, span});
    }
  }
  return found;
}

absl::Status ShowHeldout(const std::string& place, const std::vector<HeldoutPlace>& heldout,
                         bool json, std::ostream& out) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [domain, span] : heldout) {
    list.push_back({{"domain", domain},
                    {"instance", span.instance},
                    {"begin", span.instance_offset},
                    {"length", span.length}});
    if (json) continue;
    out << place << ": held out, instance " << span.instance << " of domain " << domain
        << ", tokens " << span.instance_offset << ":" << span.instance_offset + span.length << "\n";
  }
  if (json) {
    out << nlohmann::json{{"document", place},
                          {"spans", nlohmann::json::array()},
                          {"heldout", list}}
               .dump(1)
        << "\n";
  }
  out << std::flush;
  return absl::OkStatus();
}

// Returns why the record at the place was left out of the dataset; nullopt if it was not.
absl::StatusOr<std::optional<RejectedRecord>> FindRejected(const SupervisedSubject& subject,
                                                           const std::string& place) {
  const std::filesystem::path path = subject.dataset_dir / kSupervisedRejectsName;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const nlohmann::json entry =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object()) {
      return absl::DataLossError(absl::StrCat(path.string(), ": a line is not a JSON object"));
    }
    JsonFields fields(entry, path.string());
    const RejectedRecord record = {.place = fields.Text("place", ""),
                                   .reason = fields.Text("reason", ""),
                                   .detail = fields.Text("detail", "")};
    RETURN_IF_ERROR(fields.status());
    if (record.place == place) return record;
  }
  return std::nullopt;
}

absl::Status ShowRejected(const RejectedRecord& record, bool json, std::ostream& out) {
  if (json) {
    out << nlohmann::json{{"document", record.place},
                          {"spans", nlohmann::json::array()},
                          {"rejected", {{"reason", record.reason}, {"detail", record.detail}}}}
               .dump(1)
        << "\n";
  } else {
    out << record.place << ": not trained on: " << record.reason
        << (record.detail.empty() ? "" : ": ") << record.detail << "\n";
  }
  out << std::flush;
  return absl::OkStatus();
}

// Returns which steps train on an instance.
std::string StepsText(const DataOrder& order, const std::vector<int64_t>& steps) {
  if (!steps.empty()) {
    return absl::StrCat("steps", order.run.empty() ? "" : " of " + order.run, ": ",
                        absl::StrJoin(steps, ", "));
  }
  return order.run.empty() ? "in no step" : "not trained on by " + order.run;
}

// Prints the examples of instances, or returns them as JSON.
absl::StatusOr<nlohmann::json> ShowExamples(const SupervisedSubject& subject,
                                            const std::vector<int64_t>& instances, bool json,
                                            std::ostream& out) {
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(subject.dataset_dir / "tokenizer.model"));
  nlohmann::json list = nlohmann::json::array();
  for (const int64_t instance : instances) {
    ASSIGN_OR_RETURN(const auto examples, ReadStoredExamples(subject.dataset_dir, instance));
    if (json) {
      list.push_back({{"instance", instance}, {"examples", ExamplesJson(examples, *tokenizer)}});
      continue;
    }
    out << "instance " << instance << ": " << Counted(std::ssize(examples), "example") << "\n";
    for (const StoredExample& example : examples) {
      out << "\ntoken " << example.begin << ": ";
      PrintEncodedExample(example.place, example.tokens, example.targets, example.label, *tokenizer,
                          out);
    }
    out << "\n";
  }
  return list;
}

}  // namespace

absl::StatusOr<std::optional<SupervisedSubject>> FindSupervised(Session& session,
                                                                const std::string& id) {
  SupervisedSubject subject;
  std::error_code error;
  ASSIGN_OR_RETURN(const std::optional<RunAndSpikes> named, RunNamed(session, id));
  if (named) {
    subject.dataset_dir = named->run.spec().dataset_dir();
    TakeFromRun(named->run, named->spikes, &subject.order);
  } else {
    subject.dataset_dir = id;
  }
  if (!std::filesystem::exists(subject.dataset_dir / kDatasetInfoName, error)) return std::nullopt;
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(subject.dataset_dir));
  if (!info.supervised) return std::nullopt;
  subject.order.dataset_key = info.key;
  subject.order.num_instances = info.num_instances;
  if (named && named->run.spec().batch().has_warmup()) {
    subject.order.mixture = std::make_shared<MixtureSchedule>(
        ScheduleOfMixture(named->run.spec(), std::span(&info, 1)));
  }
  return subject;
}

absl::Status ExplainExamples(const SupervisedSubject& subject, int64_t instance, bool with_steps,
                             bool json, std::ostream& out) {
  ASSIGN_OR_RETURN(nlohmann::json list, ShowExamples(subject, {instance}, json, out));
  const std::vector<int64_t> steps = StepsOfInstance(subject.order, instance);
  if (json) {
    if (with_steps) list[0]["steps"] = steps;
    out << nlohmann::json{{"instances", list}}.dump(1) << "\n";
  } else if (with_steps) {
    out << StepsText(subject.order, steps) << "\n";
  }
  out << std::flush;
  return absl::OkStatus();
}

absl::Status ExplainStepOfExamples(const SupervisedSubject& subject, int64_t step, bool json,
                                   std::ostream& out) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> instances, InstancesOfStep(subject.order, step));
  const std::string not_trained_on = NotTrainedOn(subject.order, step);
  if (!not_trained_on.empty() && !json) out << "step " << step << not_trained_on << "\n\n";
  ASSIGN_OR_RETURN(const nlohmann::json list, ShowExamples(subject, instances, json, out));
  if (json) {
    nlohmann::json object = {{"step", step}, {"instances", list}};
    if (!subject.order.run.empty()) object["trained_on"] = not_trained_on.empty();
    out << object.dump(1) << "\n";
  }
  out << std::flush;
  return absl::OkStatus();
}

absl::Status ExplainPlace(const SupervisedSubject& subject, const std::string& place,
                          bool with_steps, bool json, std::ostream& out) {
  ASSIGN_OR_RETURN(const Provenance provenance,
                   Provenance::Open(subject.dataset_dir / "provenance"));
  const std::optional<uint32_t> example = provenance.FindDocument(place);
  if (!example.has_value()) {
    ASSIGN_OR_RETURN(const std::vector<HeldoutPlace> heldout, FindHeldout(subject, place));
    if (!heldout.empty()) return ShowHeldout(place, heldout, json, out);
    ASSIGN_OR_RETURN(const auto rejected, FindRejected(subject, place));
    if (rejected) return ShowRejected(*rejected, json, out);
    return absl::NotFoundError(
        absl::StrCat("--document: got ", place, ", expected FILE:LINE of an example of ",
                     subject.dataset_dir.string(), ", as --data named the file",
                     DidYouMean(place, provenance.IdsAround(place, kPlacesAround))));
  }
  nlohmann::json list = nlohmann::json::array();
  for (const ProvenanceSpan& span : provenance.Document(*example)) {
    const std::vector<int64_t> steps = StepsOfInstance(subject.order, span.instance);
    nlohmann::json one = {
        {"instance", span.instance}, {"begin", span.instance_offset}, {"length", span.length}};
    if (with_steps) one["steps"] = steps;
    list.push_back(std::move(one));
    if (json) continue;
    out << place << ": instance " << span.instance << ", tokens " << span.instance_offset << ":"
        << span.instance_offset + span.length << "\n";
    if (with_steps) out << StepsText(subject.order, steps) << "\n";
  }
  if (json) out << nlohmann::json{{"document", place}, {"spans", list}}.dump(1) << "\n";
  out << std::flush;
  return absl::OkStatus();
}

}  // namespace braid
