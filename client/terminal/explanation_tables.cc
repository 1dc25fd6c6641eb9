#include "client/terminal/explanation_tables.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "braid/v1/pipeline.pb.h"
#include "client/terminal/tables.h"

namespace braid {
namespace {

// Returns a half-open range, as a slice of Python.
std::string TokenRange(int64_t begin, int64_t length) {
  return absl::StrCat(begin, ":", begin + length);
}

std::string Quoted(const std::string& text) { return absl::StrCat("\"", OneLine(text), "\""); }

std::string StepList(const std::vector<int64_t>& steps) {
  return steps.empty() ? "-" : absl::StrJoin(steps, ", ");
}

// Returns how a duplicate repeats the document that is kept instead, which follows.
const char* Repeats(const v1::ExplainDocumentResponse& document) {
  if (!document.exact()) return "near-duplicate of ";
  return document.jaccard() < 1 ? "exact duplicate of a removed near-duplicate of "
                                : "exact duplicate of ";
}

// Returns the outcome for a document of the dataset, which training with `steps` need not have read
// (PrintDocument).
std::string FateInDataset(const v1::ExplainDocumentResponse& document,
                          const std::vector<std::vector<int64_t>>& steps, const std::string& run) {
  const bool unread =
      !steps.empty() && std::ranges::all_of(steps, [](const auto& s) { return s.empty(); });
  std::string fate = unread ? "in the dataset" : "trained on";
  if (!document.evaluation_text().empty()) {
    absl::StrAppend(&fate, ", although it shares text with ", OneLine(document.evaluation_text()),
                    " (\"", OneLine(document.shared_words()), "\")");
  }
  if (unread) {
    absl::StrAppend(&fate, run.empty() ? "; in none of the planned steps" : "; not trained on by ",
                    run);
  }
  return fate;
}

// Returns the outcome for the document.
std::string Fate(const v1::ExplainDocumentResponse& document,
                 const std::vector<std::vector<int64_t>>& steps, const std::string& run) {
  const std::string other = OneLine(document.counterpart());
  const std::string similarity =
      absl::StrFormat("cosine %.3f, 5-gram Jaccard %.3f", document.cosine(), document.jaccard());
  switch (document.fate()) {
    case v1::DOCUMENT_TRAINED_ON:
      return FateInDataset(document, steps, run);
    case v1::DOCUMENT_DUPLICATE:
      return absl::StrCat(Repeats(document), other, " (", similarity, "); not trained on");
    case v1::DOCUMENT_HELD_OUT:
      return "held out";
    case v1::DOCUMENT_OVERLAPS_HELD_OUT:
      return document.containment() > 0 ? absl::StrFormat(
                                              "contains the held-out %s or is contained in it "
                                              "(%.1f %% of the 13-word runs "
                                              "of one are in the other, %s); not trained on",
                                              other, 100 * document.containment(), similarity)
                                        : absl::StrCat("near-duplicate of the held-out ", other,
                                                       " (", similarity, "); not trained on");
    case v1::DOCUMENT_CONTAMINATED:
      return absl::StrCat("shares text with ", OneLine(document.evaluation_text()), " (\"",
                          OneLine(document.shared_words()), "\"); not used");
    case v1::DOCUMENT_REJECTED:
      return absl::StrCat("rejected: ", document.reject_reason());
    default:
      return "unknown";
  }
}

}  // namespace

std::string OneLine(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool space = byte <= ' ' || byte == 0x7F;
    if (!space) line.push_back(c);
    if (space && !line.empty() && line.back() != ' ') line.push_back(' ');
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  // C1 control characters in UTF-8, which terminals interpret too.
  for (size_t at = 0; (at = line.find('\xC2', at)) != line.npos; ++at) {
    if (at + 1 < line.size() && static_cast<unsigned char>(line[at + 1]) < 0xA0) {
      line.replace(at, 2, " ");
    }
  }
  return line;
}

void PrintInstance(const v1::InstanceExplanation& instance, const std::vector<int64_t>& steps,
                   std::ostream& out) {
  out << "instance " << instance.instance() << "  " << Counted(instance.num_tokens(), "token");
  if (!steps.empty()) out << "  in steps " << absl::StrJoin(steps, ", ");
  out << "\n";
  std::vector<std::vector<std::string>> rows = {
      {"IN INSTANCE", "DOCUMENT", "IN DOCUMENT", "DOMAIN", "COSINE", "FILE", "TEXT"}};
  for (const v1::DocumentSpan& span : instance.spans()) {
    rows.push_back(
        {TokenRange(span.instance_offset(), span.length()), OneLine(span.document()),
         TokenRange(span.document_offset(), span.length()), OneLine(span.domain()),
         span.has_similarity_to_previous() ? absl::StrFormat("%.3f", span.similarity_to_previous())
                                           : "-",
         span.source_file().empty() ? "-" : OneLine(span.source_file()), Quoted(span.excerpt())});
  }
  PrintTable(rows, out);
}

void PrintDocument(const v1::ExplainDocumentResponse& document,
                   const std::vector<std::vector<int64_t>>& steps, const std::string& run,
                   std::ostream& out) {
  const auto field = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) out << absl::StrFormat("%-12s %s\n", name, value);
  };
  field("document", OneLine(document.document()));
  field("outcome", Fate(document, steps, run));
  field("domain", OneLine(document.domain()));
  field("file", OneLine(document.source_file()));
  if (document.fate() == v1::DOCUMENT_REJECTED) {
    field("offset", absl::StrCat(document.reject_offset()));
  }
  if (document.fate() != v1::DOCUMENT_REJECTED) {
    field("length", absl::StrCat(Counted(document.num_tokens(), "token"), ", ",
                                 Counted(document.num_bytes(), "byte")));
    field("text", Quoted(document.excerpt()));
  }
  if (document.spans().empty()) return;
  std::vector<std::vector<std::string>> rows = {{"INSTANCE", "IN INSTANCE", "IN DOCUMENT"}};
  if (!steps.empty()) rows[0].push_back("STEPS");
  for (int i = 0; i < document.spans_size(); ++i) {
    const v1::DocumentSpan& span = document.spans(i);
    rows.push_back({absl::StrCat(span.instance()),
                    TokenRange(span.instance_offset(), span.length()),
                    TokenRange(span.document_offset(), span.length())});
    if (!steps.empty()) rows.back().push_back(StepList(steps[static_cast<size_t>(i)]));
  }
  out << "\n";
  PrintTable(rows, out);
}

}  // namespace braid
