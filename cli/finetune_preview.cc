#include "cli/finetune_preview.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "model/config/expert_split_config.h"
#include "model/config/model_config.h"
#include "pipeline/supervised/supervised_dataset.h"
#include "proto/stated_defaults.h"
#include "runs/training_length.h"

namespace braid {
namespace {

// Tokens shown of a longer stretch of prompt or targets: at its begin and at its end.
constexpr size_t kShownAtBegin = 6, kShownAtEnd = 12;
constexpr double kBytesPerMiB = 1 << 20;
constexpr size_t kShownClasses = 10;

bool IsTarget(std::span<const TokenRange> targets, size_t token) {
  return std::ranges::any_of(targets, [&](const TokenRange& range) {
    return static_cast<size_t>(range.begin) <= token && token < static_cast<size_t>(range.end);
  });
}

int32_t BatchOf(const v1::RunSpec& spec) {
  v1::BatchConfig batch = spec.batch();
  FillStatedDefaults(&batch);
  return batch.global_batch_size();
}

// Prints what is noteworthy about the data, only if there is any.
void PrintNotes(const SupervisedCounts& counts, std::ostream& out) {
  if (!counts.rejected.empty()) out << "rejected   " << CountsText(counts.rejected) << "\n";
  if (counts.num_cut > 0) {
    out << "cut        " << Counted(counts.num_cut, "example") << ", "
        << Counted(counts.num_cut_tokens, "token") << " at the left of prompts";
    if (counts.num_cut_answers > 0) out << " with " << Counted(counts.num_cut_answers, "answer");
    out << "\n";
  }
  if (counts.num_duplicates > 0) {
    out << "duplicates " << Counted(counts.num_duplicates, "training example")
        << " among the validation examples\n";
  }
  if (counts.num_evaluated > 0) {
    out << "duplicates " << Counted(counts.num_evaluated, "training example")
        << " with the prompt of one that the task is evaluated on\n";
  }
  if (counts.num_control_texts > 0) {
    out << "note       " << Counted(counts.num_control_texts, "record")
        << " with the text of control tokens, which is encoded as text\n";
  }
}

// Returns the tokens to show: all of short stretches, the ends of long ones.
std::set<size_t> ShownTokens(size_t num_tokens, std::span<const TokenRange> targets) {
  std::set<size_t> shown;
  for (size_t begin = 0; begin < num_tokens;) {
    size_t end = begin + 1;
    while (end < num_tokens && IsTarget(targets, end) == IsTarget(targets, begin)) ++end;
    const bool long_stretch = end - begin > kShownAtBegin + kShownAtEnd + 1;
    for (size_t i = begin; i < end; ++i) {
      if (!long_stretch || i < begin + kShownAtBegin || i >= end - kShownAtEnd) shown.insert(i);
    }
    begin = end;
  }
  return shown;
}

// Returns a piece as one line of text.
std::string PieceText(const Tokenizer& tokenizer, int32_t id) {
  const nlohmann::json piece = tokenizer.Piece(id);
  return piece.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Returns up to three training examples that are spread over the data.
std::vector<size_t> PreviewedExamples(const FinetuneData& data) {
  const size_t n = data.plan.training.examples.size();
  const std::set<size_t> chosen = {0, n / 2, n - 1};
  return {chosen.begin(), chosen.end()};
}

// Returns the chat template of the trained model; empty for one that braid does not know.
std::string ModelTemplate(const FinetuneData& data) {
  return data.new_template.empty() ? data.start.model.chat_template() : data.new_template;
}

std::string MethodName(const v1::ExpertSplit& split) {
  const auto method = split.method() == v1::ExpertSplit::METHOD_UNSPECIFIED ? v1::ExpertSplit::KEYS
                                                                            : split.method();
  return v1::ExpertSplit::Method_Name(method);
}

// Returns whether the choice of experts cannot learn although its gate is trained: no weight of an
// expert and no loss depends on a score.
bool GateLearnsNothing(const v1::ExpertSplit& split, const v1::TokenRouting& token) {
  return HasTrainedGate(split) && token.balance_loss() == 0 &&
         token.combine_weights() == v1::TokenRouting::ONES;
}

void PrintSplit(const v1::RunSpec& spec, const FinetuneData& data, std::ostream& out) {
  const v1::RoutingConfig& routing = data.start.model.routing();
  out << "experts    " << routing.num_experts() << " of " << routing.token().expert_d_ff()
      << " hidden units by " << MethodName(*data.split) << " in layers "
      << absl::StrJoin(MoeLayers(data.start.model), ",") << "; a token uses "
      << routing.token().active_experts() << " ("
      << v1::TokenRouting::Gate_Name(routing.token().gate()) << ")\n"
      << "exports    " << (spec.finetuning().recompose() ? "a dense model" : "a model with experts")
      << "\n";
  v1::TokenRouting token = routing.token();
  token.MergeFrom(spec.model().routing().token());
  if (!GateLearnsNothing(*data.split, token)) return;
  out << "note       the gate has no gradient with combine weights ONES; set "
         "model.routing.token.balance_loss, or combine_weights to SOFTMAX_OF_CHOSEN\n";
}

std::string LabelsLine(const SupervisedPlan& plan) {
  if (!plan.labels) return "";
  const std::vector<std::string>& classes = plan.labels->classes;
  if (plan.labels->regression) return "labels     numbers\n";
  const auto shown = std::span(classes).first(std::min(classes.size(), kShownClasses));
  return absl::StrCat("labels     ", classes.size(), " classes: ", absl::StrJoin(shown, ", "),
                      classes.size() > kShownClasses ? ", ..." : "", "\n");
}

}  // namespace

absl::StatusOr<int64_t> PlannedSteps(const v1::RunSpec& spec, const FinetuneData& data) {
  if (spec.num_steps() > 0) return spec.num_steps();
  ASSIGN_OR_RETURN(const v1::TrainingLength length,
                   ResolveLength("length", spec.length(),
                                 {.global_batch_size = BatchOf(spec),
                                  .sequence_length = data.settings.sequence_length,
                                  .num_instances = std::ssize(data.plan.training.sequences)}));
  return length.steps();
}

void PrintFinetunePlan(const v1::RunSpec& spec, const FinetuneData& data, int64_t num_steps,
                       std::ostream& out) {
  const SupervisedPlan& plan = data.plan;
  out << "model      " << data.start.checkpoint.string() << "\n";
  for (size_t i = 0; i < data.sources.size(); ++i) {
    const RecordSource& source = data.sources[i];
    out << "data       " << source.path << ": " << Counted(source.num_records, "record") << ", "
        << source.format;
    if (source.task_share > 0) {
      out << ", " << absl::StrFormat("%.0f %%", 100 * source.task_share)
          << " of its examples, which evaluation leaves out";
    }
    if (source.weight != 1) {
      out << ", weight " << source.weight << ": " << plan.counts.of_source[i]
          << " training examples a pass";
    }
    out << "\n";
  }
  PrintNotes(plan.counts, out);
  out << "template   " << std::string(data.settings.encoding.chat.name)
      << (data.new_template.empty() ? "; the model keeps its own for chats" : "") << "\n"
      << "examples   " << plan.training.examples.size() << " to train on, "
      << plan.validation.examples.size() << " to validate on\n"
      << "tokens     " << plan.counts.num_tokens << ", of which " << plan.counts.num_targets
      << " are targets; the longest example has " << plan.counts.num_longest << "\n"
      << "sequences  " << plan.training.sequences.size() << " of " << data.settings.sequence_length
      << ", " << absl::StrFormat("%.1f %% filled", 100 * plan.filled)
      << (data.settings.pack ? "" : ", one example each because the model routes segments") << "\n"
      << LabelsLine(plan) << "steps      " << num_steps << " of "
      << Counted(BatchOf(spec), "sequence") << "\n";
  if (data.split) PrintSplit(spec, data, out);
}

void PrintFinetuneForecast(const v1::Forecast& forecast, int64_t num_parameters, int64_t num_steps,
                           std::ostream& out) {
  const int64_t trained = forecast.num_trained_parameters();
  if (trained > 0) out << "trained    " << trained << " parameters\n";
  out << "parameters " << num_parameters << "\n"
      << "memory     "
      << absl::StrFormat("%.0f MiB per rank",
                         static_cast<double>(forecast.total_bytes()) / kBytesPerMiB)
      << "\n"
      << "time       at least "
      << FormatDuration(static_cast<double>(num_steps) * forecast.step_seconds())
      << absl::StrFormat(": %s of %.3g s at %.3g GFLOP/s, the rate of matrix products here\n",
                         Counted(num_steps, "step"), forecast.step_seconds(),
                         forecast.request().gflops_per_rank());
}

void PrintEncodedExample(const std::string& place, std::span<const int32_t> tokens,
                         std::span<const TokenRange> targets, const std::string& label,
                         const Tokenizer& tokenizer, std::ostream& out) {
  int64_t num_targets = 0;
  for (const TokenRange& range : targets) num_targets += range.end - range.begin;
  if (label.empty()) {
    out << place << ": " << Counted(std::ssize(tokens), "token") << ", "
        << Counted(num_targets, "target") << "\n";
  } else {
    tokens = tokens.first(tokens.size() - 1);
    targets = {};
    out << place << ": " << Counted(std::ssize(tokens), "token") << ", label \"" << label << "\"\n";
  }
  const std::set<size_t> shown = ShownTokens(tokens.size(), targets);
  size_t next = 0;
  for (const size_t i : shown) {
    if (i > next)
      out << absl::StrFormat("         ... %s ...\n",
                             Counted(static_cast<int64_t>(i - next), "token"));
    next = i + 1;
    out << absl::StrFormat("  %s %6d  %7d  %s\n", IsTarget(targets, i) ? "*" : " ", i, tokens[i],
                           PieceText(tokenizer, tokens[i]));
  }
}

void PrintEncodedExamples(const FinetuneData& data, std::ostream& out) {
  const PackedExamples& training = data.plan.training;
  for (const size_t i : PreviewedExamples(data)) {
    out << "\n";
    PrintEncodedExample(training.places[i], training.examples[i].tokens,
                        training.examples[i].targets, training.examples[i].label, *data.tokenizer,
                        out);
  }
  if (data.plan.labels) {
    out << "\nThe head predicts the label after the last token.\n";
    return;
  }
  out << "\nTokens marked * are targets: the loss counts them, and no others.\n";
}

nlohmann::json FinetunePlanJson(const FinetuneData& data, int64_t num_steps) {
  const SupervisedPlan& plan = data.plan;
  nlohmann::json examples = nlohmann::json::array();
  for (const size_t i : PreviewedExamples(data)) {
    nlohmann::json targets = nlohmann::json::array();
    for (const TokenRange& range : plan.training.examples[i].targets) {
      targets.push_back({range.begin, range.end});
    }
    examples.push_back({{"place", plan.training.places[i]},
                        {"tokens", plan.training.examples[i].tokens},
                        {"targets", targets}});
    if (plan.labels) examples.back()["label"] = plan.training.examples[i].label;
  }
  nlohmann::json sources = nlohmann::json::array();
  for (size_t i = 0; i < data.sources.size(); ++i) {
    const RecordSource& source = data.sources[i];
    sources.push_back({{"path", source.path},
                       {"format", source.format},
                       {"num_records", source.num_records},
                       {"task_share", source.task_share},
                       {"weight", source.weight},
                       {"num_examples", plan.counts.of_source[i]}});
  }
  nlohmann::json plan_json = {{"model", data.start.checkpoint.string()},
                              {"sources", sources},
                              {"template", data.settings.encoding.chat.name},
                              {"model_template", ModelTemplate(data)},
                              {"num_records", plan.counts.num_records},
                              {"num_examples", plan.training.examples.size()},
                              {"num_validation_examples", plan.validation.examples.size()},
                              {"num_tokens", plan.counts.num_tokens},
                              {"num_targets", plan.counts.num_targets},
                              {"num_longest", plan.counts.num_longest},
                              {"num_cut", plan.counts.num_cut},
                              {"num_cut_tokens", plan.counts.num_cut_tokens},
                              {"num_cut_answers", plan.counts.num_cut_answers},
                              {"num_control_texts", plan.counts.num_control_texts},
                              {"num_duplicates", plan.counts.num_duplicates},
                              {"num_evaluated", plan.counts.num_evaluated},
                              {"rejected", plan.counts.rejected},
                              {"num_sequences", plan.training.sequences.size()},
                              {"sequence_length", data.settings.sequence_length},
                              {"filled", plan.filled},
                              {"num_steps", num_steps},
                              {"examples", examples}};
  if (plan.labels) {
    plan_json["regression"] = plan.labels->regression;
    plan_json["classes"] = plan.labels->classes;
  }
  if (data.split) {
    const v1::RoutingConfig& routing = data.start.model.routing();
    plan_json["split"] = {{"method", MethodName(*data.split)},
                          {"layers", MoeLayers(data.start.model)},
                          {"num_experts", routing.num_experts()},
                          {"expert_d_ff", routing.token().expert_d_ff()},
                          {"active_experts", routing.token().active_experts()},
                          {"gate", v1::TokenRouting::Gate_Name(routing.token().gate())}};
  }
  return plan_json;
}

}  // namespace braid
