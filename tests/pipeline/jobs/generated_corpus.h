// A small seeded corpus with known counts, and directories to work in.
#ifndef BRAID_TESTS_PIPELINE_JOBS_GENERATED_CORPUS_H_
#define BRAID_TESTS_PIPELINE_JOBS_GENERATED_CORPUS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "braid/v1/corpus.pb.h"
#include "pipeline/store/document_store.h"

namespace braid {

struct GeneratedCorpus {
  static constexpr int kUnique = 240;
  static constexpr int kDuplicates = 4;  // two exact, two with one word changed
  static constexpr int kRejects = 3;     // bad JSON, an empty text, a repeated id
  static constexpr int kRecords = kUnique + kDuplicates + kRejects;
};

// Returns a new empty directory in testing::TempDir(), which is removed when the program ends.
std::filesystem::path NewDirectory();

// Writes a JSONL file of three domains with distinct vocabularies.
void WriteCorpus(const std::filesystem::path& path);

// Returns a store of documents doc-0, doc-1, ... of the domain "web" in a new directory.
DocumentStore StoreOf(const std::vector<std::string>& texts);

// Returns a spec for that corpus, in similarity order, that takes well under a second to run.
v1::CorpusSpec SmallSpec(const std::filesystem::path& corpus);

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_JOBS_GENERATED_CORPUS_H_
