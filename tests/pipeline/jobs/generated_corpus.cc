#include "tests/pipeline/jobs/generated_corpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "pipeline/store/stage_key.h"
#include "pipeline/store/stage_store.h"

namespace braid {
namespace {

const char* const kDomains[] = {"code", "law", "prose"};

// Returns a pronounceable word, so that BPE finds pairs to merge.
std::string Word(uint64_t number) {
  static const char* const kSyllables[] = {"ba", "de", "ki", "lo",  "mu",  "ra",  "se", "ti",
                                           "vo", "nu", "pa", "che", "sta", "gri", "fu", "wen"};
  std::string word;
  for (int i = 0; i < 3; ++i, number /= 16) word += kSyllables[number % 16];
  return word;
}

// Returns a text from 40 words of the domain, which `topic` selects, so that the documents of a
// topic are similar.
std::string Text(int domain, int topic, std::mt19937_64* random) {
  std::string text;
  const uint64_t num_words = 25 + (*random)() % 30;
  for (uint64_t i = 0; i < num_words; ++i) {
    const uint64_t word =
        1000u * static_cast<uint64_t>(domain) + 40u * static_cast<uint64_t>(topic);
    text += Word(word + (*random)() % 40);
    text += i % 9 == 8 ? ".\n" : " ";
  }
  return text + "end";
}

std::string DocumentLine(const std::string& id, const std::string& text,
                         const std::string& domain) {
  return nlohmann::json{{"id", id}, {"text", text}, {"domain", domain}}.dump() + "\n";
}

}  // namespace

std::filesystem::path NewDirectory() {
  // Removes the directory when the test program ends; a forked child leaves it to its parent.
  struct Scratch {
    Scratch()
        : path(std::filesystem::path(testing::TempDir()) /
               ("braid-jobs-" + std::to_string(owner))) {
      std::filesystem::remove_all(path);
    }
    ~Scratch() {
      std::error_code ignored;
      if (getpid() == owner) std::filesystem::remove_all(path, ignored);
    }
    const pid_t owner = getpid();
    const std::filesystem::path path;
  };
  static const Scratch scratch;
  static std::atomic<int> counter{0};
  const std::filesystem::path path = scratch.path / std::to_string(counter++);
  std::filesystem::create_directories(path);
  return path;
}

void WriteCorpus(const std::filesystem::path& path) {
  std::mt19937_64 random(7);
  std::ofstream file(path, std::ios::binary);
  std::vector<std::string> texts;
  for (int i = 0; i < GeneratedCorpus::kUnique; ++i) {
    const int domain = i % 3;
    texts.push_back(Text(domain, (i / 3) % 6, &random));
    file << DocumentLine("doc-" + std::to_string(i), texts.back(), kDomains[domain]);
    if (i == 20) file << "{\"text\": \n";
    if (i == 30) file << DocumentLine("blank", "  \n", "code");
    if (i == 40) file << DocumentLine("doc-3", "A repeated id.", "law");
  }
  for (int i = 0; i < GeneratedCorpus::kDuplicates; ++i) {
    const std::string text = texts[static_cast<size_t>(9 * i)];
    file << DocumentLine("copy-" + std::to_string(i), i < 2 ? text : text + " " + Word(5), "prose");
  }
}

DocumentStore StoreOf(const std::vector<std::string>& texts) {
  const std::filesystem::path directory = NewDirectory();
  StageWriter stage(directory, "ingest", StageKey("ingest", 1).Hex());
  auto writer = DocumentStoreWriter::Resume(directory, {});
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(writer->Add("doc-" + std::to_string(i), texts[i], "web").ok());
  }
  EXPECT_TRUE(writer->Commit(&stage).ok());
  auto store = DocumentStore::Open(directory);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

v1::CorpusSpec SmallSpec(const std::filesystem::path& corpus) {
  v1::CorpusSpec spec;
  spec.add_paths(corpus.string());
  spec.mutable_tokenizer()->set_vocab_size(400);
  spec.mutable_embedder()->set_dimension(64);
  spec.mutable_neighbors()->set_k(8);
  spec.mutable_pack()->set_sequence_length(128);
  spec.mutable_pack()->set_heldout_fraction(0.1);
  spec.set_order(v1::SIMILARITY);
  spec.set_seed(3);
  spec.set_num_threads(2);
  return spec;
}

}  // namespace braid
