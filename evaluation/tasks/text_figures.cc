#include "evaluation/tasks/text_figures.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "evaluation/tasks/answer_text.h"
#include "evaluation/tasks/porter_stem.h"

namespace braid {
namespace {

using Words = std::vector<std::string>;
using Counts = std::map<std::string, double>;  // by n-gram

constexpr size_t kBleuOrders = 4, kNistOrders = 5, kCiderOrders = 4;

struct PairWords {
  Words candidate;
  std::vector<Words> references;
};

std::vector<PairWords> PairWordsOf(std::span<const TextPair> pairs, bool plain) {
  std::vector<PairWords> words;
  for (const TextPair& pair : pairs) {
    BRAID_CHECK(!pair.references.empty()) << pair.candidate;
    words.push_back({FigureWords(pair.candidate, plain), {}});
    for (const std::string& text : pair.references) {
      words.back().references.push_back(FigureWords(text, plain));
    }
  }
  return words;
}

std::string Ngram(const Words& words, size_t begin, size_t n) {
  const auto first = words.begin() + static_cast<std::ptrdiff_t>(begin);
  return absl::StrJoin(first, first + static_cast<std::ptrdiff_t>(n), " ");
}

Counts NgramCounts(const Words& words, size_t n) {
  Counts counts;
  for (size_t i = 0; i + n <= words.size(); ++i) ++counts[Ngram(words, i, n)];
  return counts;
}

// Returns the largest count in any reference.
Counts BestCounts(const std::vector<Words>& references, size_t n) {
  Counts best;
  for (const Words& reference : references) {
    for (const auto& [ngram, count] : NgramCounts(reference, n)) {
      best[ngram] = std::max(best[ngram], count);
    }
  }
  return best;
}

double CountOf(const Counts& counts, const std::string& ngram) {
  const auto found = counts.find(ngram);
  return found == counts.end() ? 0 : found->second;
}

// Returns the reference length closest to that of the candidate; of two the shorter one.
double ClosestLength(const PairWords& pair) {
  const auto length = static_cast<double>(pair.candidate.size());
  double best = static_cast<double>(pair.references[0].size());
  for (const Words& reference : pair.references) {
    const auto other = static_cast<double>(reference.size());
    const double gain = std::abs(best - length) - std::abs(other - length);
    if (gain > 0 || (gain == 0 && other < best)) best = other;
  }
  return best;
}

// Sums: matches and n-grams by order, words of candidates and of references.
SummedFigure Bleu(const std::vector<PairWords>& pairs) {
  SummedFigure figure;
  for (const PairWords& pair : pairs) {
    std::vector<double> unit;
    for (size_t n = 1; n <= kBleuOrders; ++n) {
      const Counts best = BestCounts(pair.references, n);
      double matches = 0, total = 0;
      for (const auto& [ngram, count] : NgramCounts(pair.candidate, n)) {
        matches += std::min(count, CountOf(best, ngram));
        total += count;
      }
      unit.insert(unit.end(), {matches, total});
    }
    unit.insert(unit.end(), {static_cast<double>(pair.candidate.size()), ClosestLength(pair)});
    figure.units.push_back(std::move(unit));
  }
  figure.value = [](std::span<const double> sum) {
    double log_precision = 0;
    for (size_t n = 0; n < kBleuOrders; ++n) {
      if (sum[2 * n] == 0) return 0.0;
      log_precision += std::log(sum[2 * n] / sum[2 * n + 1]) / kBleuOrders;
    }
    const double length = sum[2 * kBleuOrders], reference = sum[2 * kBleuOrders + 1];
    return std::exp(log_precision + std::min(0.0, 1 - reference / length));
  };
  return figure;
}

// Returns log2(count of the first n - 1 words / count) of all n-grams of all references.
std::map<std::string, double> Information(const std::vector<PairWords>& pairs) {
  std::map<std::string, double> counts, information;
  double num_words = 0;
  for (const PairWords& pair : pairs) {
    for (const Words& reference : pair.references) {
      num_words += static_cast<double>(reference.size());
      for (size_t n = 1; n <= kNistOrders; ++n) {
        for (const auto& [ngram, count] : NgramCounts(reference, n)) counts[ngram] += count;
      }
    }
  }
  for (const auto& [ngram, count] : counts) {
    const size_t last = ngram.rfind(' ');
    const double before = last == ngram.npos ? num_words : counts.at(ngram.substr(0, last));
    information[ngram] = std::log2(before / count);
  }
  return information;
}

// Sums: information of matches and n-grams by order, words of candidates and of references.
SummedFigure Nist(const std::vector<PairWords>& pairs) {
  const std::map<std::string, double> information = Information(pairs);
  SummedFigure figure;
  for (const PairWords& pair : pairs) {
    std::vector<double> unit;
    for (size_t n = 1; n <= kNistOrders; ++n) {
      const Counts best = BestCounts(pair.references, n);
      double gained = 0, total = 0;
      for (const auto& [ngram, count] : NgramCounts(pair.candidate, n)) {
        const double matches = std::min(count, CountOf(best, ngram));
        if (matches > 0) gained += matches * information.at(ngram);
        total += count;
      }
      unit.insert(unit.end(), {gained, total});
    }
    double references = 0;
    for (const Words& one : pair.references) references += static_cast<double>(one.size());
    unit.insert(unit.end(), {static_cast<double>(pair.candidate.size()),
                             references / static_cast<double>(pair.references.size())});
    figure.units.push_back(std::move(unit));
  }
  figure.value = [](std::span<const double> sum) {
    double score = 0;
    for (size_t n = 0; n < kNistOrders; ++n) {
      if (sum[2 * n + 1] > 0) score += sum[2 * n] / sum[2 * n + 1];
    }
    const double length = sum[2 * kNistOrders], reference = sum[2 * kNistOrders + 1];
    if (length == 0 || reference == 0) return 0.0;
    // The penalty is a half where the candidates have two thirds of the words.
    const double beta = std::log(.5) / std::pow(std::log(1.5), 2);
    return score * std::exp(beta * std::pow(std::log(std::min(length / reference, 1.0)), 2));
  };
  return figure;
}

// Matches words of a candidate and a reference, each at most once, from the ends of both; returns
// pairs of positions.
std::map<size_t, size_t> Align(const Words& candidate, const Words& reference) {
  std::map<size_t, size_t> pairs;
  std::set<size_t> used;
  for (const bool stems : {false, true}) {
    for (size_t i = candidate.size(); i-- > 0;) {
      if (pairs.contains(i)) continue;
      const std::string word = stems ? PorterStem(candidate[i]) : candidate[i];
      for (size_t j = reference.size(); j-- > 0;) {
        if (used.contains(j)) continue;
        if (word != (stems ? PorterStem(reference[j]) : reference[j])) continue;
        pairs[i] = j;
        used.insert(j);
        break;
      }
    }
  }
  return pairs;
}

double MeteorOf(const Words& candidate, const Words& reference) {
  const std::map<size_t, size_t> pairs = Align(candidate, reference);
  if (pairs.empty()) return 0;
  double chunks = 0;
  for (auto pair = pairs.begin(); pair != pairs.end(); ++pair) {
    const bool continues = pair != pairs.begin() && std::prev(pair)->first + 1 == pair->first &&
                           std::prev(pair)->second + 1 == pair->second;
    chunks += !continues;
  }
  const auto matches = static_cast<double>(pairs.size());
  const double precision = matches / static_cast<double>(candidate.size());
  const double recall = matches / static_cast<double>(reference.size());
  const double mean = precision * recall / (.9 * precision + .1 * recall);
  return mean * (1 - .5 * std::pow(chunks / matches, 3));
}

double LongestCommon(const Words& a, const Words& b) {
  std::vector<int> row(b.size() + 1, 0);
  for (const std::string& word : a) {
    int diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const int above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

double RougeLOf(const PairWords& pair) {
  double precision = 0, recall = 0;
  for (const Words& reference : pair.references) {
    const double common = LongestCommon(pair.candidate, reference);
    if (common == 0) continue;
    precision = std::max(precision, common / static_cast<double>(pair.candidate.size()));
    recall = std::max(recall, common / static_cast<double>(reference.size()));
  }
  constexpr double kBeta2 = 1.2 * 1.2;
  if (precision == 0 || recall == 0) return 0;
  return (1 + kBeta2) * precision * recall / (recall + kBeta2 * precision);
}

// A text as weights of its n-grams, by order.
struct WeightedText {
  std::array<Counts, kCiderOrders> weights;
  std::array<double, kCiderOrders> norms = {};
  double length = 0;
};

class Cider {
 public:
  explicit Cider(const std::vector<PairWords>& pairs)
      : log_pairs_(std::log(static_cast<double>(pairs.size()))) {
    for (const PairWords& pair : pairs) {
      std::set<std::string> seen;
      for (const Words& reference : pair.references) {
        for (size_t n = 1; n <= kCiderOrders; ++n) {
          for (const auto& [ngram, count] : NgramCounts(reference, n)) seen.insert(ngram);
        }
      }
      for (const std::string& ngram : seen) ++documents_[ngram];
    }
  }

  double Of(const PairWords& pair) const {
    const WeightedText candidate = Weighted(pair.candidate);
    double sum = 0;
    for (const Words& words : pair.references) sum += Similarity(candidate, Weighted(words));
    return 10 * sum / (kCiderOrders * static_cast<double>(pair.references.size()));
  }

 private:
  WeightedText Weighted(const Words& words) const {
    WeightedText text;
    for (size_t n = 0; n < kCiderOrders; ++n) {
      for (const auto& [ngram, count] : NgramCounts(words, n + 1)) {
        const double documents = std::max(CountOf(documents_, ngram), 1.0);
        const double weight = count * (log_pairs_ - std::log(documents));
        text.weights[n][ngram] = weight;
        text.norms[n] += weight * weight;
      }
      text.norms[n] = std::sqrt(text.norms[n]);
    }
    // The COCO script counts bigrams.
    text.length = words.empty() ? 0 : static_cast<double>(words.size() - 1);
    return text;
  }

  static double Similarity(const WeightedText& candidate, const WeightedText& reference) {
    double sum = 0;
    const double delta = candidate.length - reference.length;
    for (size_t n = 0; n < kCiderOrders; ++n) {
      double product = 0;
      for (const auto& [ngram, weight] : candidate.weights[n]) {
        const double other = CountOf(reference.weights[n], ngram);
        product += std::min(weight, other) * other;
      }
      if (candidate.norms[n] != 0 && reference.norms[n] != 0) {
        product /= candidate.norms[n] * reference.norms[n];
      }
      sum += product * std::exp(-delta * delta / (2 * 36));
    }
    return sum;
  }

  const double log_pairs_;
  Counts documents_;  // pairs whose references have an n-gram
};

double BestMeteor(const PairWords& pair) {
  double best = 0;
  for (const Words& reference : pair.references) {
    best = std::max(best, MeteorOf(pair.candidate, reference));
  }
  return best;
}

SummedFigure MeanOver(const std::vector<PairWords>& pairs,
                      const std::function<double(const PairWords&)>& score) {
  std::vector<double> scores;
  for (const PairWords& pair : pairs) scores.push_back(score(pair));
  return MeanFigure(scores);
}

constexpr std::pair<absl::string_view, absl::string_view> kRewrites[] = {
    {"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
    {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};

bool IsPunctuation(const std::string& word) {
  static const std::set<std::string>* const marks =
      new std::set<std::string>{"''", "'", "``", "`", "\"", "(", ")", "{",  "}",   "[",
                                "]",  ".", "?",  "!", ",",  ":", "-", "--", "...", ";"};
  return marks->contains(word);
}

}  // namespace

double SummedFigure::Value(std::span<const int32_t> draws) const {
  if (units.empty()) return 0;
  std::vector<double> sum(units[0].size(), 0.0);
  for (size_t i = 0; i < units.size(); ++i) {
    const int32_t times = draws.empty() ? 1 : draws[i];
    for (size_t j = 0; times > 0 && j < sum.size(); ++j) sum[j] += times * units[i][j];
  }
  return value(sum);
}

SummedFigure MeanFigure(std::span<const double> scores) {
  SummedFigure figure;
  for (const double score : scores) figure.units.push_back({score, 1});
  figure.value = [](std::span<const double> sum) { return sum[1] > 0 ? sum[0] / sum[1] : 0; };
  return figure;
}

bool IsTextFigure(v1::TaskFigure figure) {
  return figure == v1::BLEU || figure == v1::NIST || figure == v1::METEOR ||
         figure == v1::ROUGE_L || figure == v1::CIDER;
}

SummedFigure TextFigure(v1::TaskFigure figure, std::span<const TextPair> pairs) {
  const std::vector<PairWords> words =
      PairWordsOf(pairs, /*plain=*/figure != v1::BLEU && figure != v1::NIST);
  switch (figure) {
    case v1::BLEU:
      return Bleu(words);
    case v1::NIST:
      return Nist(words);
    case v1::METEOR:
      return MeanOver(words, BestMeteor);
    case v1::ROUGE_L:
      return MeanOver(words, RougeLOf);
    default: {
      BRAID_CHECK(figure == v1::CIDER) << figure;
      const Cider cider(words);
      return MeanOver(words, [&](const PairWords& pair) { return cider.Of(pair); });
    }
  }
}

Words FigureWords(std::string_view text, bool plain) {
  static const RE2* const symbols = new RE2("([\\{-\\~\\[-\\` -\\&\\(-\\+\\:-\\@\\/])");
  static const RE2* const mark_after = new RE2("([^0-9])([\\.,])");
  static const RE2* const mark_before = new RE2("([\\.,])([^0-9])");
  static const RE2* const dash = new RE2("([0-9])(-)");
  std::string lower = LowerCase({text.data(), text.size()});
  // One after the other, as in the script: "&amp;lt;" becomes "<".
  for (const auto& [from, to] : kRewrites) absl::StrReplaceAll({{from, to}}, &lower);
  lower = " " + lower + " ";
  RE2::GlobalReplace(&lower, *symbols, " \\1 ");
  RE2::GlobalReplace(&lower, *mark_after, "\\1 \\2 ");
  RE2::GlobalReplace(&lower, *mark_before, " \\1 \\2");
  RE2::GlobalReplace(&lower, *dash, "\\1 \\2 ");
  Words words = WordsBetweenSpaces(lower);
  if (plain) std::erase_if(words, IsPunctuation);
  return words;
}

}  // namespace braid
