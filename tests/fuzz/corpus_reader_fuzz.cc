// A corpus file of any kind: the input itself, or the input after compression, so that it reaches
// the readers of text. Filters and vectors of the corpus are read, too.
#include <simdjson.h>

#include "base/atomic_file.h"
#include "base/check.h"
#include "pipeline/corpus/corpus_reader.h"
#include "tests/base/crafted_files.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

constexpr const char* kCorpusNames[] = {"a.jsonl", "a.txt", "a.jsonl.gz", "a.jsonl.zst"};

// The first byte selects the name and the settings.
std::string Input(char choice, std::string_view bytes) {
  return std::string(1, choice) + std::string(bytes);
}

v1::IngestConfig ConfigOf(int choice) {
  v1::IngestConfig config;
  config.set_max_document_bytes(1 << 12);
  config.set_max_expanded_bytes(1 << 20);
  if ((choice & 8) != 0) config.set_split_bytes(64);
  if ((choice & 16) != 0) config.set_strict(true);
  if ((choice & 32) != 0) config.set_where("i64 > 3 or not id != 'a' or domain is null");
  if ((choice & 64) != 0) config.set_embedding_field("vector");
  return config;
}

std::string FileBytes(int choice, std::string_view bytes) {
  if ((choice & 4) == 0) return std::string(bytes);
  return (choice & 1) != 0 ? Zstd(bytes) : Gzip(bytes);
}

void CheckDocument(const Document& document) {
  BRAID_CHECK(simdjson::validate_utf8(document.text.data(), document.text.size()));
  BRAID_CHECK(!document.text.empty() && document.text.size() <= 1 << 12);
  BRAID_CHECK(!document.id.empty() && !document.domain.empty() && document.offset >= 0);
}

void ReadCorpus(const std::string& path, const v1::IngestConfig& config) {
  const auto reader = CorpusReader::Open(std::vector<std::string>{path}, config);
  BRAID_CHECK(reader.ok()) << reader.status();
  Document document;
  std::vector<Reject> rejects;
  // Columns of nothing but nulls may have any number of rows.
  for (CorpusStep step = CorpusStep::kNoneYet;
       step != CorpusStep::kEnd && (*reader)->num_records() < 10'000;) {
    const auto next = (*reader)->Next(&document, &rejects);
    step = next.value_or(CorpusStep::kEnd);
    if (step == CorpusStep::kDocument) CheckDocument(document);
  }
  BRAID_CHECK((*reader)->num_rejected() == std::ssize(rejects));
  BRAID_CHECK((*reader)->num_records() ==
              (*reader)->num_accepted() + std::ssize(rejects) + (*reader)->num_filtered());
  BRAID_CHECK(!config.where().empty() || (*reader)->num_filtered() == 0);
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(corpus_reader)() {
  const std::string lines =
      "{\"id\": 1, \"text\": \"first\"}\n{\"id\": 1, \"text\": \"again\"}\nbad\n"
      "{\"raw_content\": \"x\", \"domain\": \"../d\"}\n";
  const std::string text = "One paragraph of text.\n\nAnother one, longer than the first.\n";
  const std::string vectors =
      "{\"id\": \"a\", \"i64\": 4, \"text\": \"x\", \"vector\": [1, -2.5e3, 0]}\n"
      "{\"id\": \"b\", \"i64\": null, \"text\": \"x\", \"vector\": [null]}\n";
  const std::string parquet =
      *ReadFile(std::filesystem::path(BRAID_GOLDEN_PARQUET) / "none-1.parquet");
  return {Input(0, lines),
          Input(8, lines),
          Input(16, lines),
          Input(1, text + text),
          Input(9, text + text),
          Input(2, Gzip(lines)),
          Input(3, Zstd(lines)),
          Input(6, lines),
          Input(7, lines),
          Input(1, Gzip(text)),
          Input(2, Gzip("") + Gzip(lines) + "tail"),
          Input(3, ZstdWithChecksum(lines) + Zstd(lines)),
          Input(32 + 64, vectors),
          Input(static_cast<char>(128 + 32 + 64), parquet),
          Input(static_cast<char>(128 + 32), parquet)};
}

}  // namespace braid

int FUZZ_INPUT(corpus_reader)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  const int choice = size > 0 ? data[0] : 0;
  const std::string_view bytes = AsText(data, size).substr(size > 0 ? 1 : 0);
  const auto path = (choice & 128) != 0
                        ? directory.Put("a.parquet", bytes)
                        : directory.Put(kCorpusNames[choice & 3], FileBytes(choice, bytes));
  ReadCorpus(path.string(), ConfigOf(choice));
  return 0;
}
