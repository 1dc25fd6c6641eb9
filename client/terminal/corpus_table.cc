#include "client/terminal/corpus_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "client/terminal/explanation_tables.h"
#include "client/terminal/tables.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.2f", static_cast<double>(bytes) / 1e6);
}

// Returns the share of the bytes of all text.
std::string Share(int64_t bytes, const v1::CorpusDescription& corpus) {
  const auto all = static_cast<double>(std::max<int64_t>(corpus.num_bytes(), 1));
  return absl::StrFormat("%.1f %%", 100 * static_cast<double>(bytes) / all);
}

void PrintDomains(const v1::CorpusDescription& corpus, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {{"DOMAIN", "DOCUMENTS", "MB", "SHARE"}};
  for (const v1::CorpusDomain& domain : corpus.domains()) {
    rows.push_back({OneLine(domain.name()), WithThousands(domain.num_documents()),
                    Megabytes(domain.num_bytes()), Share(domain.num_bytes(), corpus)});
  }
  rows.push_back({"all", WithThousands(corpus.num_documents()), Megabytes(corpus.num_bytes()), ""});
  PrintTable(rows, out);
}

void PrintRejects(const v1::CorpusDescription& corpus, std::ostream& out) {
  if (corpus.rejects().empty()) {
    out << "no records rejected\n";
    return;
  }
  out << "records rejected\n";
  Table table({});
  for (const v1::RejectCount& reject : corpus.rejects()) {
    table.AddRow({"  " + reject.reason(), WithThousands(reject.count())});
  }
  table.Print(out);
}

std::string DomainSourceText(const v1::CorpusDescription& corpus) {
  const int64_t from_field = corpus.num_field_documents();
  const int64_t from_path = corpus.num_documents() - from_field;
  if (from_path == 0) return "domains from a field of each record";
  if (from_field == 0) return "domains from names of files and directories";
  return absl::StrFormat(
      "domains of %s from a field of their records, of %s from names of files and "
      "directories",
      Counted(from_field, "document"), WithThousands(from_path));
}

}  // namespace

void PrintCorpus(const v1::CorpusDescription& corpus, int64_t long_document_bytes,
                 std::ostream& out) {
  PrintDomains(corpus, out);
  out << "\n" << DomainSourceText(corpus) << "\n";
  if (long_document_bytes > 0) {
    out << absl::StrFormat("%s of more than %s bytes: %s MB, %s\n",
                           Counted(corpus.num_long_documents(), "document"),
                           WithThousands(long_document_bytes), Megabytes(corpus.num_long_bytes()),
                           Share(corpus.num_long_bytes(), corpus));
  }
  if (corpus.num_filtered() > 0) {
    out << Counted(corpus.num_filtered(), "record") << " not kept by ingest.where\n";
  }
  PrintRejects(corpus, out);
  for (const std::string& note : corpus.notes()) out << "note: " << PrintableText(note) << "\n";
}

}  // namespace braid
