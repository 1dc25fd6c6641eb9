// Measures documents per second of a BERT encoder, with and without batches of texts of similar
// length, and of a static embedder, and megabytes per second of the encoder's tokenizer.
//
//   braid-bench-embedding --json embedding.json            a random model of Contriever's size
//   braid-bench-embedding --static                         30,000 token vectors of 256 dimensions
//   braid-bench-embedding --tokenize vocab.txt text.txt    the tokenizer alone
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/atomic_file.h"
#include "base/blas_core.h"
#include "formats/weight_files.h"
#include "retrieval/contriever_embedder.h"
#include "retrieval/parallel_for.h"
#include "retrieval/static_embedder.h"
#include "tests/bench/or_exit.h"
#include "tests/retrieval/tiny_bert.h"

namespace braid {
namespace {

using Json = nlohmann::ordered_json;

struct Settings {
  std::string model, json;
  std::vector<std::string> tokenize;  // vocabulary, text
  bool measure_static = false;
  int documents = 48;
  int repeats = 3;
  int threads = 2;
  int32_t batch_tokens = ContrieverOptions().max_batch_tokens;
};

// Returns the seconds of the fastest of several runs.
double Seconds(int repeats, const std::function<void()>& work) {
  double least = INFINITY;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    least = std::min(least, seconds.count());
  }
  return least;
}

std::filesystem::path RandomModel() {
  TinyBert contriever;
  contriever.config = {.vocab_size = 30522,
                       .hidden_size = 768,
                       .num_hidden_layers = 12,
                       .num_attention_heads = 12,
                       .intermediate_size = 3072,
                       .max_position_embeddings = 512,
                       .type_vocab_size = 2,
                       .layer_norm_eps = 1e-12};
  const auto directory = std::filesystem::temp_directory_path() / "braid-bench-contriever";
  std::filesystem::remove_all(directory);
  WriteTinyBert(contriever, directory);
  return directory;
}

// Returns a text with this number of tokens, including [CLS] and [SEP]; each letter is a token.
std::string TextOf(int num_tokens) {
  std::string text = "a";
  for (int i = 3; i < num_tokens; ++i) text += " b";
  return text;
}

// Returns log-uniform lengths between 16 and 512.
std::vector<std::string> MixedTexts(int count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(4, 9);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i)
    texts.push_back(TextOf(static_cast<int>(std::exp2(exponent(random)))));
  return texts;
}

double DocumentsPerSecond(const Settings& settings, bool bucket,
                          const std::vector<std::string>& texts) {
  const auto embedder = OrExit(ContrieverEmbedder::Load({.directory = settings.model,
                                                         .max_batch_tokens = settings.batch_tokens,
                                                         .bucket_by_length = bucket}));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<float> vectors(texts.size() * static_cast<size_t>(embedder->dimension()));
  OrExit(embedder->Embed(std::span(views).first(1),
                         std::span(vectors).first(static_cast<size_t>(embedder->dimension()))));
  const double seconds =
      Seconds(settings.repeats, [&] { OrExit(embedder->Embed(views, vectors)); });
  return static_cast<double>(texts.size()) / seconds;
}

Json MeasureModel(const Settings& settings) {
  const int n = settings.documents;
  const std::vector<std::string> mixed = MixedTexts(2 * n);
  Json report = {{"blas", BlasCoreName()},
                 {"threads", settings.threads},
                 {"batch_tokens", settings.batch_tokens}};
  report["documents_per_second_128_tokens"] =
      DocumentsPerSecond(settings, true, std::vector<std::string>(4 * n, TextOf(128)));
  report["documents_per_second_512_tokens"] =
      DocumentsPerSecond(settings, true, std::vector<std::string>(n, TextOf(512)));
  report["documents_per_second_mixed"] = DocumentsPerSecond(settings, true, mixed);
  report["documents_per_second_mixed_in_given_order"] = DocumentsPerSecond(settings, false, mixed);
  return report;
}

// Writes a random model of the size of potion-base-8M and returns its words.
std::vector<std::string> WriteStaticModel(const std::filesystem::path& directory) {
  constexpr int64_t kWords = 30'000, kWidth = 256;
  std::mt19937 random(3);
  nlohmann::json vocabulary = {{"[UNK]", 0}};
  std::vector<std::string> words;
  while (std::ssize(words) + 1 < kWords) {
    std::string word(2 + random() % 8, ' ');
    for (char& c : word) c = static_cast<char>('a' + random() % 26);
    if (vocabulary.contains(word)) continue;
    vocabulary[word] = words.size() + 1;
    words.push_back(word);
  }
  const nlohmann::json tokenizer = {
      {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"model", {{"unk_token", "[UNK]"}, {"vocab", vocabulary}}}};
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "tokenizer.json") << tokenizer.dump();
  std::normal_distribution<float> normal;
  std::vector<float> table(kWords * kWidth);
  for (float& x : table) x = normal(random);
  OrExit(WriteWeightFiles(
      directory, {.tensors = {{"embeddings", DType::kF32, {kWords, kWidth}}},
                  .values = [&](const TensorInfo&) -> absl::StatusOr<std::span<const float>> {
                    return std::span<const float>(table);
                  },
                  .max_file_bytes = int64_t{1} << 40}));
  return words;
}

// Measures texts of about 1.2 KB: 180 words, the word of rank r with a probability of 1 / r, as in
// natural text.
Json MeasureStatic(const Settings& settings) {
  const auto directory = std::filesystem::temp_directory_path() / "braid-bench-static";
  const std::vector<std::string> words = WriteStaticModel(directory);
  std::mt19937 random(4);
  std::uniform_real_distribution<double> log_rank(0, std::log(static_cast<double>(words.size())));
  std::vector<std::string> texts(20'000);
  size_t num_bytes = 0;
  for (std::string& text : texts) {
    for (int i = 0; i < 180; ++i)
      text += words[static_cast<size_t>(std::exp(log_rank(random))) - 1] + " ";
    num_bytes += text.size();
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto embedder = OrExit(StaticEmbedder::Load({.directory = directory}));
  std::vector<float> vectors(texts.size() * static_cast<size_t>(embedder->dimension()));
  SetRetrievalThreads(settings.threads);
  const std::clock_t start = std::clock();
  const double seconds =
      Seconds(settings.repeats, [&] { OrExit(embedder->Embed(views, vectors)); });
  const double cpu_seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::filesystem::remove_all(directory);
  return {{"threads", settings.threads},
          {"bytes_per_document", num_bytes / texts.size()},
          {"documents_per_second", static_cast<double>(texts.size()) / seconds},
          // Counts the time of all threads: the speed per core, whatever else runs.
          {"documents_per_cpu_second",
           static_cast<double>(texts.size()) * settings.repeats / cpu_seconds}};
}

Json MeasureTokenizer(const Settings& settings) {
  const std::string text = OrExit(ReadFile(settings.tokenize[1]));
  const WordPieceTokenizer tokenizer(
      OrExit(WordPieceVocabulary::Parse(OrExit(ReadFile(settings.tokenize[0])), "vocabulary")),
      true);
  size_t num_ids = 0;
  const double seconds =
      Seconds(settings.repeats, [&] { num_ids = tokenizer.Encode(text, INT32_MAX).ids.size(); });
  return {{"bytes", text.size()},
          {"ids", num_ids},
          {"megabytes_per_second", static_cast<double>(text.size()) / 1e6 / seconds}};
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  braid::Settings settings;
  CLI::App app("Measure the speed of BERT encoders and their tokenizer");
  app.add_option("--model", settings.model, "Directory of a model (default: a random one)");
  app.add_option("--tokenize", settings.tokenize, "VOCABULARY TEXT: measure the tokenizer alone")
      ->expected(2);
  app.add_flag("--static", settings.measure_static, "Measure a random static embedder instead");
  app.add_option("--documents", settings.documents, "Documents of 512 tokens");
  app.add_option("--repeats", settings.repeats,
                 "Runs per measurement, of which the fastest counts");
  app.add_option("--threads", settings.threads, "Threads");
  app.add_option("--batch-tokens", settings.batch_tokens, "Tokens per batch");
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  braid::SetContrieverThreads(settings.threads);
  const bool random =
      settings.model.empty() && settings.tokenize.empty() && !settings.measure_static;
  if (random) settings.model = braid::RandomModel().string();
  const braid::Json report = settings.measure_static     ? braid::MeasureStatic(settings)
                             : settings.tokenize.empty() ? braid::MeasureModel(settings)
                                                         : braid::MeasureTokenizer(settings);
  if (random) std::filesystem::remove_all(settings.model);
  std::cout << report.dump() << std::endl;
  if (!settings.json.empty()) std::ofstream(settings.json) << report.dump(2) << "\n";
}
