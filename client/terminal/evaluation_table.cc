#include "client/terminal/evaluation_table.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/utf8.h"
#include "client/terminal/model_name.h"
#include "client/terminal/tables.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr int kMaxLabelColumns = 20;

// A figure, its half-interval, and whether it differs significantly from the baseline.
struct Cell {
  std::string value;
  std::string spread = {};
  bool marked = false;
};

struct EvaluationRow {
  std::string label;
  std::vector<Cell> cells;
};

// The spread, preceded by a space and followed by the mark or a space in its place.
std::string SpreadText(const Cell& cell) {
  if (cell.spread.empty() && !cell.marked) return "";
  return absl::StrCat(cell.spread.empty() ? "" : " ", cell.spread, cell.marked ? "*" : " ");
}

// Prints rows, the first of which is the header, in blocks of at most `width` columns.
void PrintRows(const std::vector<EvaluationRow>& rows, int width, std::ostream& out) {
  std::vector<std::string> header = {rows[0].label};
  for (const Cell& cell : rows[0].cells) header.push_back(cell.value);
  Table table(header);
  for (size_t i = 1; i < rows.size(); ++i) {
    std::vector<TableCell> cells = {rows[i].label};
    for (const Cell& cell : rows[i].cells) cells.emplace_back(cell.value, SpreadText(cell));
    table.AddRow(std::move(cells));
  }
  table.Print(out, {.width = width, .first_column = kMaxLabelColumns});
}

// Returns the decimals that show about four digits.
int Decimals(double value) { return value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3; }

// A dash means here that a domain has no text, so other values that are not finite are spelled out.
std::string DecimalText(double value, int decimals) {
  return std::isfinite(value) ? FormatFixed(value, decimals) : absl::StrCat(value);
}

Cell Figure(double value, int64_t of, bool has_interval, const v1::Interval& interval) {
  if (of == 0) return {"-"};
  const int decimals = Decimals(value);
  Cell cell{DecimalText(value, decimals)};
  if (has_interval) {
    cell.spread = absl::StrCat("±", DecimalText((interval.high() - interval.low()) / 2, decimals));
  }
  return cell;
}

Cell CellOf(const v1::DomainEvaluation& domain, EvaluationMeasure measure) {
  switch (measure) {
    case EvaluationMeasure::kPerplexity:
      return Figure(domain.perplexity_after_first_segment(),
                    domain.num_tokens_after_first_segment(),
                    domain.has_perplexity_after_first_segment_interval(),
                    domain.perplexity_after_first_segment_interval());
    case EvaluationMeasure::kBitsPerByte:
      return Figure(domain.bits_per_byte_after_first_segment(),
                    domain.num_bytes_after_first_segment(),
                    domain.has_bits_per_byte_after_first_segment_interval(),
                    domain.bits_per_byte_after_first_segment_interval());
    case EvaluationMeasure::kWithFirstSegment:
      break;
  }
  return Figure(domain.perplexity(), domain.num_tokens(), domain.has_perplexity_interval(),
                domain.perplexity_interval());
}

std::string ConfidenceText(double confidence) {
  return absl::StrFormat("%.4g %%", 100 * confidence);
}

bool LeavesOutZero(const v1::Interval& interval) {
  return interval.low() > 0 || interval.high() < 0;
}

// Compares losses where the models share a tokenizer, and bits per byte otherwise.
bool Differs(const v1::DomainDifference& difference) {
  return difference.has_loss_difference()
             ? difference.has_loss_difference_interval() &&
                   LeavesOutZero(difference.loss_difference_interval())
             : difference.has_bits_per_byte_difference_interval() &&
                   LeavesOutZero(difference.bits_per_byte_difference_interval());
}

Cell Gain(const v1::DomainDifference& total, bool in_nats) {
  const double gain = in_nats ? total.loss_difference() : total.bits_per_byte_difference();
  const v1::Interval& interval =
      in_nats ? total.loss_difference_interval() : total.bits_per_byte_difference_interval();
  const bool known = in_nats ? total.has_loss_difference_interval()
                             : total.has_bits_per_byte_difference_interval();
  Cell cell{absl::StrFormat("%.4f", gain)};
  if (known) {
    cell.spread = absl::StrFormat("±%.4f", (interval.high() - interval.low()) / 2);
    cell.marked = LeavesOutZero(interval);
  }
  return cell;
}

// Returns the letter of a model: A, B, ... Z, 27, 28, ...
std::string Letter(int index) {
  return index < 26 ? std::string(1, static_cast<char>('A' + index)) : absl::StrCat(index + 1);
}

std::string NameOf(const v1::EvaluationResult& result, const v1::Evaluation& evaluation) {
  std::set<std::string> all;
  for (const v1::Evaluation& other : result.evaluations()) all.insert(other.model());
  return ModelName(evaluation.model(), all);
}

std::string MergingOf(const v1::Evaluation& evaluation) {
  if (evaluation.varying_experts()) return "a varying number of active experts";
  if (evaluation.active_experts() > 0) {
    return absl::StrCat(evaluation.active_experts(),
                        evaluation.active_experts() == 1 ? " active expert" : " active experts");
  }
  switch (evaluation.fixed_weights()) {
    case v1::AVERAGE_WEIGHTS:
      return "average weights";
    case v1::UNIFORM_WEIGHTS:
      return "uniform weights";
    case v1::NEXT_DOMAIN_WEIGHTS:
      return "the next domain's weights";
    default:
      break;
  }
  return evaluation.routing() == v1::PROMPT_ROUTING ? "prompt routing" : "segment routing";
}

std::string Describe(const v1::EvaluationResult& result, const v1::Evaluation& evaluation) {
  return absl::StrCat(
      NameOf(result, evaluation), ", step ", evaluation.step(), ", ",
      evaluation.moe() ? absl::StrCat("experts, ", MergingOf(evaluation)) : "dense");
}

bool SameWindows(const v1::EvaluationResult& result) {
  return std::ranges::none_of(result.comparisons(),
                              [](const auto& c) { return c.paired_by_document(); });
}

bool ExcludesFirstSegments(const v1::EvaluationResult& result) {
  return std::ranges::any_of(result.evaluations(),
                             [](const auto& e) { return e.first_segment_length() > 0; });
}

// Names the models whose windows are one segment.
void PrintSelfRouting(const v1::EvaluationResult& result, std::ostream& out) {
  std::vector<std::string> letters;
  for (int i = 0; i < result.evaluations_size(); ++i) {
    if (result.evaluations(i).routes_on_itself()) letters.push_back(Letter(i));
  }
  if (letters.empty()) return;
  if (result.evaluations_size() > 1) out << absl::StrJoin(letters, ", ") << ": ";
  out << "each window is one segment, which routes on the tokens that it\n"
         "predicts, so the losses are too low\n";
}

// Returns "windows of 512 tokens; main figures exclude the first 64 of each".
std::string WindowsText(const v1::Evaluation& evaluation) {
  std::string text = absl::StrFormat("windows of %d tokens", evaluation.window_length());
  if (evaluation.first_segment_length() == 0) return text;
  absl::StrAppendFormat(&text, "; main figures exclude the first %d of each",
                        evaluation.first_segment_length());
  if (evaluation.total().num_tokens_after_first_segment() > 0) return text;
  return text + ",\nwhich leaves no token: see WITH 1ST SEGMENT";
}

void PrintNotes(const v1::EvaluationResult& result, std::ostream& out) {
  const std::string first = WindowsText(result.evaluations(0));
  const bool alike = std::ranges::all_of(
      result.evaluations(), [&](const v1::Evaluation& e) { return WindowsText(e) == first; });
  if (alike) out << first << "\n";
  for (int i = 0; !alike && i < result.evaluations_size(); ++i) {
    out << Letter(i) << ": " << WindowsText(result.evaluations(i)) << "\n";
  }
  PrintSelfRouting(result, out);
  out << "±: half of the " << ConfidenceText(result.confidence())
      << " confidence interval, by bootstrap over windows\n";
  if (result.comparisons().empty()) return;
  out << "*: differs from A: the interval of the paired difference excludes 0\n";
  if (!SameWindows(result)) out << "models with different windows are compared by document\n";
}

void PrintOne(const v1::EvaluationResult& result, int width, std::ostream& out) {
  const v1::Evaluation& evaluation = result.evaluations(0);
  const bool excludes = ExcludesFirstSegments(result);
  std::vector<EvaluationRow> rows = {{"DOMAIN", {{"TOKENS"}, {"PERPLEXITY"}, {"BITS/BYTE"}}}};
  if (excludes) rows[0].cells.push_back({"WITH 1ST SEGMENT"});
  const auto add = [&](const v1::DomainEvaluation& domain) {
    rows.push_back({domain.domain(),
                    {{WithThousands(domain.num_tokens_after_first_segment())},
                     CellOf(domain, EvaluationMeasure::kPerplexity),
                     CellOf(domain, EvaluationMeasure::kBitsPerByte)}});
    if (excludes) {
      rows.back().cells.push_back(CellOf(domain, EvaluationMeasure::kWithFirstSegment));
    }
  };
  for (const v1::DomainEvaluation& domain : evaluation.domains()) add(domain);
  add(evaluation.total());
  out << Describe(result, evaluation) << "\n\n";
  PrintRows(rows, width, out);
  out << "\n";
  PrintNotes(result, out);
}

const char* Title(EvaluationMeasure measure) {
  switch (measure) {
    case EvaluationMeasure::kPerplexity:
      return "PERPLEXITY";
    case EvaluationMeasure::kBitsPerByte:
      return "BITS PER BYTE";
    case EvaluationMeasure::kWithFirstSegment:
      break;
  }
  return "WITH 1ST SEGMENT";
}

// Returns domain d, or the total after the last domain.
const v1::DomainEvaluation& DomainAt(const v1::Evaluation& evaluation, int d) {
  return d < evaluation.domains_size() ? evaluation.domains(d) : evaluation.total();
}

EvaluationRow DomainRow(const v1::EvaluationResult& result, int d, EvaluationMeasure measure) {
  const v1::DomainEvaluation& first = DomainAt(result.evaluations(0), d);
  EvaluationRow row{first.domain(), {{WithThousands(first.num_tokens_after_first_segment())}}};
  for (const v1::Evaluation& evaluation : result.evaluations()) {
    row.cells.push_back(CellOf(DomainAt(evaluation, d), measure));
  }
  // Comparisons exclude first segments.
  if (measure == EvaluationMeasure::kWithFirstSegment) return row;
  for (const v1::EvaluationComparison& comparison : result.comparisons()) {
    row.cells[1 + comparison.evaluation()].marked = Differs(comparison.domains(d));
  }
  return row;
}

// Returns the gain of each model over the first on all text.
EvaluationRow GainRow(const v1::EvaluationResult& result) {
  // Text within first segments has nothing to compare.
  const auto measured = [&](const v1::EvaluationComparison& comparison) {
    const v1::Evaluation& other = result.evaluations(comparison.evaluation());
    return result.evaluations(0).total().num_tokens_after_first_segment() > 0 &&
           other.total().num_tokens_after_first_segment() > 0;
  };
  bool in_nats = true;
  for (const v1::EvaluationComparison& comparison : result.comparisons()) {
    in_nats =
        in_nats && (!measured(comparison) || comparison.domains().rbegin()->has_loss_difference());
  }
  EvaluationRow row{in_nats ? "gain, nats/token" : "gain, bits/byte", {{""}, {""}}};
  for (const v1::EvaluationComparison& comparison : result.comparisons()) {
    row.cells.push_back(measured(comparison) ? Gain(*comparison.domains().rbegin(), in_nats)
                                             : Cell{"-"});
  }
  return row;
}

void PrintSeveral(const v1::EvaluationResult& result, EvaluationMeasure measure, int width,
                  std::ostream& out) {
  EvaluationRow header{Title(measure), {{"TOKENS"}}};
  for (int i = 0; i < result.evaluations_size(); ++i) {
    out << Letter(i) << "  " << Describe(result, result.evaluations(i)) << "\n";
    header.cells.push_back({Letter(i)});
  }
  std::vector<EvaluationRow> rows = {header};
  const int domains = result.evaluations(0).domains_size();
  for (int d = 0; d <= domains; ++d) rows.push_back(DomainRow(result, d, measure));
  for (const auto other : {EvaluationMeasure::kPerplexity, EvaluationMeasure::kBitsPerByte,
                           EvaluationMeasure::kWithFirstSegment}) {
    if (other == measure) continue;
    if (other == EvaluationMeasure::kWithFirstSegment && !ExcludesFirstSegments(result)) continue;
    EvaluationRow row = DomainRow(result, domains, other);
    row.label = absl::AsciiStrToLower(Title(other));
    row.cells[0].value.clear();
    rows.push_back(std::move(row));
  }
  rows.push_back(GainRow(result));
  out << "\n";
  PrintRows(rows, width, out);
  out << "\n";
  PrintNotes(result, out);
}

}  // namespace

void PrintEvaluation(const v1::EvaluationResult& result, EvaluationMeasure measure, int width,
                     std::ostream& out) {
  if (result.evaluations_size() == 1) return PrintOne(result, width, out);
  PrintSeveral(result, measure, width, out);
}

}  // namespace braid
