// Measures megabytes per second of user CPU time of a tokenizer on one thread, with the cache of
// words (after a first pass over the texts, and in that pass, which begins with an empty cache) and
// without, and writes the ids for a comparison with another program.
//
//   braid-bench-tokenizer --tokenizer tokenizer.json --texts texts.jsonl --ids ids.bin
//
// The texts are the JSON strings of the lines of a file. The ids are int32: for each text their
// number, then they. tests/peers/tokenizers_ids.py compares them.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "formats/tokenizer.h"
#include "formats/word_encoder.h"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

struct TokenizerSettings {
  std::string tokenizer, texts, ids, json;
  int repeats = 3;
};

double UserSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

// Returns the megabytes per second of user CPU time of the fastest of several runs.
double Speed(int repeats, size_t num_bytes, const std::function<void()>& encode) {
  double least = INFINITY;
  for (int i = 0; i < repeats; ++i) {
    const double start = UserSeconds();
    encode();
    least = std::min(least, UserSeconds() - start);
  }
  return static_cast<double>(num_bytes) / 1e6 / least;
}

std::vector<std::string> ReadTexts(const std::string& path) {
  std::ifstream lines(path);
  std::vector<std::string> texts;
  for (std::string line; std::getline(lines, line);) {
    const auto text = nlohmann::json::parse(line, nullptr, false);
    if (!text.is_string()) {
      OrExit(absl::InvalidArgumentError(path + ": line " + std::to_string(texts.size() + 1) +
                                        " is not a JSON string"));
    }
    texts.push_back(text.get<std::string>());
  }
  if (texts.empty()) OrExit(absl::InvalidArgumentError(path + ": no texts"));
  return texts;
}

void WriteIds(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
              const std::string& path) {
  WordEncoder encoder(tokenizer);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  std::vector<int32_t> ids;
  for (const std::string& text : texts) {
    ids.assign(1, 0);
    encoder.Encode(text, &ids);
    ids[0] = static_cast<int32_t>(ids.size() - 1);
    file.write(reinterpret_cast<const char*>(ids.data()),
               static_cast<std::streamsize>(ids.size() * sizeof(int32_t)));
  }
  if (!file.flush()) OrExit(absl::UnavailableError("write " + path));
}

nlohmann::ordered_json MeasureTokenizer(const TokenizerSettings& settings) {
  const auto tokenizer = OrExit(Tokenizer::Load(settings.tokenizer));
  const std::vector<std::string> texts = ReadTexts(settings.texts);
  size_t num_bytes = 0, num_tokens = 0;
  for (const std::string& text : texts) num_bytes += text.size();
  if (!settings.ids.empty()) WriteIds(*tokenizer, texts, settings.ids);
  std::vector<int32_t> ids;
  WordEncoder encoder(*tokenizer);
  const auto encode_all = [&] {
    num_tokens = 0;
    for (const std::string& text : texts) {
      ids.clear();
      encoder.Encode(text, &ids);
      num_tokens += ids.size();
    }
  };
  const double empty = Speed(1, num_bytes, encode_all);
  const double warm = Speed(settings.repeats, num_bytes, encode_all);
  const double uncached = Speed(settings.repeats, num_bytes, [&] {
    for (const std::string& text : texts) ids = tokenizer->Encode(text);
  });
  return {{"texts", texts.size()},
          {"bytes", num_bytes},
          {"tokens", num_tokens},
          {"megabytes_per_cpu_second", warm},
          {"megabytes_per_cpu_second_from_empty_cache", empty},
          {"megabytes_per_cpu_second_without_cache", uncached}};
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::TokenizerSettings settings;
  CLI::App app("Measure the speed of a tokenizer");
  app.add_option("--tokenizer", settings.tokenizer, "SentencePiece model or tokenizer.json")
      ->required();
  app.add_option("--texts", settings.texts, "File with a JSON string per line")->required();
  app.add_option("--ids", settings.ids, "File for the ids");
  app.add_option("--repeats", settings.repeats, "Runs per measurement, of which the fastest counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  const auto report = braid::MeasureTokenizer(settings);
  std::cout << report.dump() << std::endl;
  if (!settings.json.empty()) std::ofstream(settings.json) << report.dump(2) << "\n";
}
