#include "evaluation/probing/probe_sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "evaluation/probing/swapped_sentences.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace probe_sentences_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string Word(uint64_t number) {
  return absl::StrCat("w", std::string(1, static_cast<char>('a' + number / 26 % 26)),
                      std::string(1, static_cast<char>('a' + number % 26)));
}

// Text of `count` sentences whose words have frequencies as in language; some have two clauses,
// names, quotes, abbreviations or line breaks.
std::string RandomText(int count, uint64_t seed) {
  std::string text;
  uint64_t state = seed;
  for (int i = 0; i < count; ++i) {
    const int length = 4 + static_cast<int>(NextSplitMix64(&state) % 26);
    const uint64_t kind = NextSplitMix64(&state) % 8;
    for (int w = 0; w < length; ++w) {
      const double u = UnitInterval(NextSplitMix64(&state));
      std::string word = Word(static_cast<uint64_t>(std::exp(u * std::log(300.0))) - 1);
      if (w == 0 && kind == 1) word = "Zoe";
      if (w == 2 && kind == 2) word = "Dr. Who";
      if (w == 0) word[0] = absl::ascii_toupper(word[0]);
      if (w == length / 2 && kind > 3) absl::StrAppend(&word, kind == 4 ? ";" : ",");
      if (w == length / 2 + 1 && kind > 4) word = kind > 6 ? "and" : "but";
      absl::StrAppend(&text, word, w + 1 == length ? "" : w % 9 == 8 ? "\n" : " ");
    }
    absl::StrAppend(&text, kind == 3 ? "?\"" : ".", i % 7 == 6 ? "\n\n" : " ");
  }
  return text;
}

std::string LinesOf(const std::vector<ProbeSentences>& probes) {
  std::string lines;
  for (const ProbeSentences& probe : probes) {
    std::multiset<std::string> of_probe;
    const auto add = [&](const char* part, const std::vector<LabeledSentence>& sentences) {
      for (const LabeledSentence& sentence : sentences) {
        of_probe.insert(
            absl::StrCat(probe.name, "\t", part, "\t", sentence.label, "\t", sentence.text, "\n"));
      }
    };
    add("training", probe.training);
    add("test", probe.test);
    for (const std::string& line : of_probe) lines += line;
  }
  return lines;
}

std::string SortedByProbe(const std::string& output) {
  std::map<int, std::multiset<std::string>> by_probe;
  const std::vector<std::string> names = ProbeNames();
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);) {
    const auto name = std::ranges::find(names, line.substr(0, line.find('\t')));
    by_probe[static_cast<int>(name - names.begin())].insert(line + "\n");
  }
  std::string lines;
  for (const auto& [probe, sentences] : by_probe) {
    for (const std::string& line : sentences) lines += line;
  }
  return lines;
}

std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (size_t n = 1; n > 0;) {
    n = fread(buffer, 1, sizeof(buffer), pipe);
    output.append(buffer, n);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

TEST(ProbeSentencesTest, LabelsAgreeWithASecondConstructionInPython) {
  const std::string text = RandomText(4000, 7);
  const ScratchDirectory scratch;
  const std::string path = scratch / "text.txt";
  PutFile(path, text);
  SentencePool pool(5);
  pool.Add(text);
  const std::vector<Probe> all = ProbesNamed({}).value();
  for (const std::optional<int> words : {std::optional<int>(), std::optional<int>(40)}) {
    ASSERT_OK_AND_ASSIGN(const auto probes, LabelSentences(pool.Sentences(), all, 400, words));
    ASSERT_EQ(probes.size(), 4u);
    EXPECT_EQ(probes[1].num_classes, words.value_or(10));
    const std::string expected = OutputOf(absl::StrCat(
        "'", BRAID_PYTHON, "' '", BRAID_TESTS_DIR, "/evaluation/probing/probe_labels.py' '", path,
        "' 5 400 ", words.has_value() ? absl::StrCat(*words) : ""));
    EXPECT_EQ(LinesOf(probes), SortedByProbe(expected));
  }
}

TEST(ProbeSentencesTest, ClassesAreBalancedAndPartsAreDisjoint) {
  SentencePool pool(1);
  pool.Add(RandomText(4000, 8));
  ASSERT_OK_AND_ASSIGN(const auto probes,
                       LabelSentences(pool.Sentences(), ProbesNamed({}).value(), 300));
  for (const ProbeSentences& probe : probes) {
    std::map<int32_t, int> training, test;
    std::set<std::string> seen;
    for (const LabeledSentence& sentence : probe.training) {
      ++training[sentence.label];
      EXPECT_TRUE(seen.insert(sentence.text).second) << sentence.text;
    }
    for (const LabeledSentence& sentence : probe.test) {
      ++test[sentence.label];
      EXPECT_TRUE(seen.insert(sentence.text).second) << sentence.text;
    }
    ASSERT_EQ(std::ssize(training), probe.num_classes) << probe.name;
    const int of_class = 300 / probe.num_classes;
    for (const auto& [label, count] : training) EXPECT_EQ(count, of_class * 4 / 5) << probe.name;
    for (const auto& [label, count] : test) EXPECT_EQ(count, of_class - of_class * 4 / 5);
  }
}

TEST(ProbeSentencesTest, SentencesDoNotDependOnTheOrderOfDocuments) {
  SentencePool forward(3, 50), backward(3, 50);
  for (int i = 0; i < 20; ++i) forward.Add(RandomText(20, i));
  for (int i = 20; i-- > 0;) backward.Add(RandomText(20, i));
  EXPECT_EQ(forward.Sentences(), backward.Sentences());
  EXPECT_EQ(forward.Sentences().size(), 50u);
  SentencePool other(4, 50);
  for (int i = 0; i < 20; ++i) other.Add(RandomText(20, i));
  EXPECT_NE(forward.Sentences(), other.Sentences());
}

TEST(SentencesTest, EndAtPeriodsBeforeCapitals) {
  EXPECT_THAT(
      SplitSentences("A short one. Dr. J. Smith went to\nthe old house today. \"Why did he go "
                     "there at all?\" He paid 3.50 for it all. this one begins badly for "
                     "us.\n\nA heading without an end\n\nThe last paragraph has one more!"),
      ElementsAre("Dr. J. Smith went to the old house today.", "\"Why did he go there at all?\"",
                  "He paid 3.50 for it all. this one begins badly for us.",
                  "The last paragraph has one more!"));
  EXPECT_THAT(SplitSentences(""), IsEmpty());
  EXPECT_THAT(SplitSentences("One two three 4 5 6 7 8 9."), IsEmpty()) << "hardly any words";
}

TEST(SwappedSentencesTest, ClausesChangePlacesWithTheirCapitals) {
  const auto lower = [](std::string_view word) { return word == "The"; };
  EXPECT_EQ(SwapClauses("The dog ran away, but we found him.", lower),
            "We found him, but the dog ran away.");
  EXPECT_EQ(SwapClauses("Zoe ran far away; we found her!", lower),
            "We found her; Zoe ran far away!");
  EXPECT_EQ(SwapClauses("The dog, the cat, and the old bird left.", lower), std::nullopt);
  EXPECT_EQ(SwapClauses("The dog ran away, and fast.", lower), std::nullopt);
}

TEST(SwappedSentencesTest, WordsNextToPunctuationStay) {
  EXPECT_EQ(SwapWords("Mary saw, Peter did not."), std::nullopt) << "only one plain word";
  EXPECT_EQ(SwapWords("Mary, who saw it, left."), "Mary, saw who it, left.");
}

std::string Refusal(const std::string& text, const std::vector<Probe>& probes, int64_t count) {
  SentencePool pool(0);
  pool.Add(text);
  return std::string(LabelSentences(pool.Sentences(), probes, count).status().message());
}

TEST(ProbeSentencesTest, TooFewSentencesAreRefusedWithTheNumberToPass) {
  const std::string text = RandomText(500, 3);
  SentencePool pool(0);
  pool.Add(text);
  const std::vector<Probe> length = {Probe::kLength};
  const std::string refusal = Refusal(text, length, 10000);
  EXPECT_THAT(refusal, HasSubstr("num_sentences: got 10000, but the text has"));
  EXPECT_THAT(refusal, HasSubstr("lower --sentences to the smallest of these numbers"));
  int64_t enough = 0;
  for (int64_t n = 6; Refusal(text, length, n).empty(); n += 6) enough = n;
  EXPECT_THAT(refusal, HasSubstr(absl::StrCat(enough, " with length")));
  const std::string words = Refusal(text, {Probe::kWords}, 10000);
  const size_t at = words.find("at most ") + 8;
  const int64_t available = std::stoll(words.substr(at));
  EXPECT_GT(available, 0);
  EXPECT_EQ(Refusal(text, {Probe::kWords}, available), "");
  // It depends on the text alone.
  EXPECT_NE(Refusal(text, {Probe::kWords}, available + 1), "");
  const std::string just_more = Refusal(text, {Probe::kWords}, available + 20);
  EXPECT_THAT(just_more, HasSubstr(absl::StrCat("at most ", available, " with words")));
}

TEST(ProbeSentencesTest, ATextWithLessThanTheMinimumNeedsMoreText) {
  const std::string refusal = Refusal(RandomText(60, 3), {Probe::kLength}, 10000);
  EXPECT_THAT(refusal, HasSubstr(" with length; at least 100 are needed; use more text, other"));
  EXPECT_THAT(refusal, Not(HasSubstr("--sentences")));
}

TEST(ProbeSentencesTest, OneClassOnlyIsRefused) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    absl::StrAppend(&text, "It has ", Word(i), " ", Word(i + 1), " here. ");
  EXPECT_THAT(Refusal(text, {Probe::kLength}, 120), HasSubstr("at most 0 with length"));
}

TEST(ProbeSentencesTest, RepeatedProbesAreRefused) {
  const std::vector<std::string> names = {"words", "length", "words"};
  EXPECT_FAILS(ProbesNamed(names).status(), absl::StatusCode::kInvalidArgument,
               "probes: got words twice");
}

TEST(ProbeSentencesTest, UnknownProbesAndScriptsWithoutSpacesAreNamed) {
  const std::vector<std::string> names = {"swaped_words"};
  EXPECT_FAILS(ProbesNamed(names).status(), absl::StatusCode::kInvalidArgument,
               "did you mean \"swapped_words\"?");
  SentencePool pool(0);
  pool.Add("\xE5\xAE\x83\xE4\xBB\xAC\xE5\x9C\xA8\xE8\xBF\x99\xE9\x87\x8C\xE3\x80\x82 a");
  EXPECT_FAILS(pool.CheckScript(), absl::StatusCode::kInvalidArgument,
               "scripts without spaces between words");
  SentencePool english(0);
  english.Add("Caf\xC3\xA9s are open, and it is \xE5\xAE\x83.");
  EXPECT_OK(english.CheckScript());
}

}  // namespace probe_sentences_test
}  // namespace braid
