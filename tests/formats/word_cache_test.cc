#include "formats/word_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace braid {
namespace word_cache_test {

// Tokens of a word by a rule, so that any answer of the cache can be checked.
std::vector<int32_t> TokensOf(const std::string& word) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < word.size(); i += 1 + word.size() / 4) {
    tokens.push_back((1 << 24) - 1 - static_cast<uint8_t>(word[i]) * 1000);
  }
  return tokens;
}

TEST(WordCacheTest, ReturnsOnlyWhatWasStoredUnderTheWord) {
  std::mt19937_64 random(1);
  for (const size_t max_bytes : {size_t{1}, size_t{5000}, size_t{1} << 20, size_t{16} << 20}) {
    WordCache cache(max_bytes);
    int num_found = 0;
    for (int i = 0; i < 30000; ++i) {
      std::string word(1 + random() % 48, 'a');
      word[random() % word.size()] = static_cast<char>(random() % 2);
      const uint64_t hash = WordCache::Hash(word);
      std::vector<int32_t> ids = {7};
      if (!cache.Append(word, hash, &ids)) {
        ASSERT_EQ(ids.size(), 1u);
        cache.Insert(word, hash, TokensOf(word));
        continue;
      }
      ++num_found;
      std::vector<int32_t> expected = TokensOf(word);
      expected.insert(expected.begin(), 7);
      ASSERT_EQ(ids, expected) << word;
    }
    EXPECT_GT(num_found, max_bytes > 10000 ? 5000 : 0) << max_bytes;
  }
}

TEST(WordCacheTest, KeepsFrequentWordsWhenOthersOccurOnce) {
  WordCache cache(/*max_bytes=*/256);  // four words
  const auto seen = [&](const std::string& word) {
    std::vector<int32_t> ids;
    const uint64_t hash = WordCache::Hash(word);
    if (cache.Append(word, hash, &ids)) return true;
    cache.Insert(word, hash, TokensOf(word));
    return false;
  };
  for (int i = 0; i < 4; ++i) seen("the");
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(seen("rare" + std::to_string(i)));
    EXPECT_TRUE(seen("the")) << i;
  }
}

// No system has such a range of addresses.
TEST(WordCacheTest, WorksWhereMemoryCannotBeMapped) {
  WordCache cache(size_t{1} << 62);
  for (const std::string word : {"one", "two", "three", "four", "five", "six"}) {
    const uint64_t hash = WordCache::Hash(word);
    std::vector<int32_t> ids;
    EXPECT_FALSE(cache.Append(word, hash, &ids));
    cache.Insert(word, hash, TokensOf(word));
    EXPECT_TRUE(cache.Append(word, hash, &ids));
    EXPECT_EQ(ids, TokensOf(word));
  }
}

TEST(WordCacheTest, IgnoresWordsThatDoNotFit) {
  WordCache cache(1 << 20);
  const std::string word(50, 'x');
  const uint64_t hash = WordCache::Hash(word);
  std::vector<int32_t> ids;
  cache.Insert(word, hash, std::vector<int32_t>(5, 1));
  EXPECT_FALSE(cache.Append(word, hash, &ids));
  cache.Insert(word, hash, std::vector<int32_t>(4, 1));
  EXPECT_TRUE(cache.Append(word, hash, &ids));
  EXPECT_EQ(ids, std::vector<int32_t>(4, 1));
}

}  // namespace word_cache_test
}  // namespace braid
