#include "runs/metrics_export/text_tables.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/number_text.h"
#include "base/utf8.h"
#include "google/protobuf/text_format.h"
#include "runs/main_figures.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

std::string Cell(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}, {"\r", " "}});
}

void AddField(const Message& message, const FieldDescriptor* field, const std::string& path,
              std::string* rows);

void AddFields(const Message& message, const std::string& prefix, std::string* rows) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    AddField(message, field, absl::StrCat(prefix, field->name()), rows);
  }
}

void AddField(const Message& message, const FieldDescriptor* field, const std::string& path,
              std::string* rows) {
  const bool repeated = field->is_repeated();
  if (!repeated && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return AddFields(message.GetReflection()->GetMessage(message, field), path + ".", rows);
  }
  const int size = repeated ? message.GetReflection()->FieldSize(message, field) : 1;
  std::string values;
  for (int i = 0; i < size; ++i) {
    std::string value;
    TextFormat::PrintFieldValueToString(message, field, repeated ? i : -1, &value);
    absl::StrAppend(&values, i > 0 ? ", " : "", value);
  }
  absl::StrAppend(rows, "| ", Cell(path), " | ", Cell(values), " |\n");
}

std::string EvaluationRow(const v1::DomainEvaluation& domain) {
  return absl::StrFormat("| %s | %d | %s | %s | %.2f |\n", Cell(domain.domain()),
                         domain.num_tokens_after_first_segment(),
                         FormatFixed(MainPerplexity(domain), 2), FormatFixed(MainLoss(domain), 4),
                         domain.perplexity());
}

std::string CountedTokens(const v1::Evaluation& evaluation) {
  const int first = evaluation.first_segment_length();
  return absl::StrCat(first == 0 ? "All tokens count."
                                 : absl::StrCat("The main perplexity leaves out the first ", first,
                                                " tokens of each window."),
                      evaluation.routes_on_itself()
                          ? " Each window is one segment, which routes on the tokens "
                            "that it predicts, so its losses are too low."
                          : "");
}

}  // namespace

std::string ConfigurationTable(const v1::RunSpec& spec) {
  std::string rows = "| setting | value |\n|---|---|\n";
  AddFields(spec, "", &rows);
  return rows;
}

std::string EvaluationTable(const v1::Evaluation& evaluation) {
  std::string rows = absl::StrCat(
      "Step ", evaluation.step(), ", ", v1::InferenceRouting_Name(evaluation.routing()), ". ",
      CountedTokens(evaluation), "\n\n",
      "| domain | tokens | perplexity | loss, nats per token | perplexity with first segments |\n",
      "|---|---:|---:|---:|---:|\n");
  for (const v1::DomainEvaluation& domain : evaluation.domains()) rows += EvaluationRow(domain);
  return rows + EvaluationRow(evaluation.total());
}

std::string Verbatim(std::string_view text) {
  std::string block;
  const std::string valid = ReplaceInvalidUtf8(text);
  for (const auto line : absl::StrSplit(valid, '\n')) {
    absl::StrAppend(&block, "    ", line, "\n");
  }
  return block;
}

}  // namespace braid
