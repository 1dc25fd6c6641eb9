// The parts of the input are the five tables.
#include "base/check.h"
#include "formats/npy_header.h"
#include "pipeline/stages/provenance.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

std::vector<std::string> TableNames() {
  const FuzzDirectory directory;
  const std::vector<ProvenanceSpan> none;
  const auto files = WriteProvenance(directory.path(), none, std::vector<std::string>{});
  BRAID_CHECK(files.ok()) << files.status();
  std::vector<std::string> names;
  for (const FileSummary& file : *files) names.push_back(file.name);
  return names;
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(provenance)() {
  const FuzzDirectory directory;
  const std::vector<ProvenanceSpan> spans = {{0, 0, 0, 0, 5}, {1, 0, 0, 5, 3}, {1, 3, 1, 0, 8}};
  const std::vector<std::string> ids = {"a", "", "a longer one"};
  BRAID_CHECK(WriteProvenance(directory.path(), spans, ids).ok());
  std::vector<std::string> tables;
  for (const std::string& name : TableNames()) tables.push_back(directory.Get(name));
  BRAID_CHECK(tables.size() == 5u) << tables.size();
  std::vector<std::string> seeds = {
      JoinParts({tables[0], tables[1], tables[2], tables[3], tables[4]})};
  // Seeds in which one table has valid rows without columns.
  for (size_t i = 0; i < tables.size(); ++i) {
    std::vector<std::string> parts = tables;
    const auto header = ParseNpyHeader(parts[i], "seed");
    if (!header.ok()) continue;
    parts[i] = FormatNpyHeader(header->descr, std::vector<int64_t>{header->shape[0], 0});
    seeds.push_back(JoinParts({parts[0], parts[1], parts[2], parts[3], parts[4]}));
  }
  return seeds;
}

}  // namespace braid

int FUZZ_INPUT(provenance)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  static const std::vector<std::string> names = TableNames();
  const std::vector<std::string> parts = SplitParts(AsText(data, size), names.size());
  for (size_t i = 0; i < names.size(); ++i) directory.Put(names[i], parts[i]);
  const auto provenance = Provenance::Open(directory.path());
  if (!provenance.ok()) return 0;
  for (uint32_t i = 0; i < std::min<int64_t>(provenance->num_documents(), 1000); ++i) {
    // Ids in a wrong order may hide a document, but must not return another one.
    const std::string_view id = provenance->document_id(i);
    const auto found = provenance->FindDocument(id);
    BRAID_CHECK(!found || provenance->document_id(*found) == id) << i;
    provenance->Document(i);
  }
  for (uint32_t i = 0; i < std::min<int64_t>(provenance->num_instances(), 1000); ++i) {
    for (const ProvenanceSpan& span : provenance->Instance(i)) {
      BRAID_CHECK(span.document < provenance->num_documents()) << span.document;
    }
  }
  provenance->FindDocument("a");
  return 0;
}
