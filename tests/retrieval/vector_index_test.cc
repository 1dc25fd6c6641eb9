#include "retrieval/vector_index.h"

#include <faiss/IndexHNSW.h>
#include <faiss/IndexPreTransform.h>
#include <faiss/MetaIndexes.h>
#include <faiss/index_io.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "retrieval/parallel_for.h"

namespace braid {
namespace vector_index_test {

std::vector<float> RandomValues(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Output {
  explicit Output(size_t size) : ids(size), scores(size) {}
  operator SearchOutput() { return {ids, scores}; }

  std::vector<int64_t> ids;
  std::vector<float> scores;
};

TEST(SortSearchOutputTest, SortsByScoreThenIdWithMissingLast) {
  Output output(5);
  output.ids = {7, -1, 3, 9, 5};
  output.scores = {0.5, 99, 0.5, -2, 0.7};
  SortSearchOutput(5, output);
  EXPECT_THAT(output.ids, testing::ElementsAre(5, 3, 7, 9, -1));
  EXPECT_THAT(output.scores, testing::ElementsAre(0.7f, 0.5f, 0.5f, -2.0f, 0.0f));
}

TEST(ExactSearchTest, AgreesForFewAndForManyQueries) {
  const std::vector<float> base = RandomValues(500 * 16, 1), queries = RandomValues(40 * 16, 2);
  Output many(40 * 5), few(5 * 5);
  ASSERT_TRUE(ExactSearch(base, queries, 16, 5, many).ok());
  ASSERT_TRUE(ExactSearch(base, std::span(queries).first(5 * 16), 16, 5, few).ok());
  for (size_t i = 0; i < few.ids.size(); ++i) EXPECT_EQ(few.ids[i], many.ids[i]);
}

TEST(ExactSearchTest, MarksMissingResults) {
  const std::vector<float> base = {1, 0, 0, 1};
  Output output(3);
  ASSERT_TRUE(ExactSearch(base, std::vector<float>{2, 1}, 2, 3, output).ok());
  EXPECT_THAT(output.ids, testing::ElementsAre(0, 1, -1));
  EXPECT_THAT(output.scores, testing::ElementsAre(2, 1, 0));
}

TEST(VectorIndexTest, KeepsCallersIds) {
  for (const char* factory : {"Flat", "IVF4,Flat", "HNSW8", "IDMap,Flat", "IVF4,Flat,RFlat"}) {
    auto index = VectorIndex::Create(8, factory);
    ASSERT_TRUE(index.ok()) << index.status();
    const std::vector<float> values = RandomValues(200 * 8, 3);
    if (!(*index)->is_trained()) {
      EXPECT_TRUE(absl::IsFailedPrecondition((*index)->Add({}, {})));
      ASSERT_TRUE((*index)->Train(values).ok());
    }
    EXPECT_EQ((*index)->num_lists().has_value(), std::string(factory).starts_with("IVF"));
    if ((*index)->num_lists()) (*index)->SetProbes(4);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 200; ++i) ids.push_back(1'000'000'000'000 + 7 * i);
    ASSERT_TRUE((*index)->Add(ids, values).ok());
    EXPECT_EQ((*index)->num_vectors(), 200);
    Output exact(200 * 3), found(200 * 3);
    ASSERT_TRUE(ExactSearch(values, values, 8, 3, exact).ok());
    ASSERT_TRUE((*index)->Search(values, 3, found).ok());
    int equal = 0;
    for (size_t i = 0; i < found.ids.size(); ++i) equal += found.ids[i] == ids[exact.ids[i]];
    EXPECT_GE(equal, 590) << factory;
  }
}

TEST(VectorIndexTest, BuildsTheSameGraphEveryTimeWithSeveralThreads) {
  constexpr int64_t kVectors = 2000;
  const std::vector<float> values = RandomValues(kVectors * 24, 5);
  std::vector<int64_t> ids(kVectors);
  std::iota(ids.begin(), ids.end(), int64_t{0});
  SetRetrievalThreads(4);
  std::vector<int64_t> first;
  for (int i = 0; i < 4; ++i) {
    auto index = VectorIndex::Create(24, "HNSW4");
    ASSERT_TRUE(index.ok()) << index.status();
    ASSERT_TRUE((*index)->Add(ids, values).ok());
    Output found(kVectors * 5);
    ASSERT_TRUE((*index)->Search(values, 5, found).ok());
    if (first.empty()) first = found.ids;
    EXPECT_TRUE(found.ids == first) << "build " << i;
  }
  SetRetrievalThreads(0);
}

// Otherwise the codes of a PQ are reordered for minutes.
TEST(VectorIndexTest, TrainsAnIndexWithinAnotherAsFastAsAlone) {
  const std::vector<float> values = RandomValues(400 * 8, 6);
  std::vector<int64_t> ids(400);
  std::iota(ids.begin(), ids.end(), int64_t{0});
  for (const char* factory : {"PQ8", "RR8,PQ8", "IDMap,PQ8", "PQ8,RFlat"}) {
    auto index = VectorIndex::Create(8, factory);
    ASSERT_TRUE(index.ok()) << index.status();
    ASSERT_TRUE((*index)->Train(values).ok()) << factory;
    ASSERT_TRUE((*index)->Add(ids, values).ok()) << factory;
    EXPECT_EQ((*index)->num_vectors(), 400) << factory;
  }
}

TEST(VectorIndexTest, SetsTheSearchBreadthOfAGraphWithinAnotherIndex) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("inner-" + std::to_string(getpid()) + ".faiss");
  auto index = VectorIndex::Create(8, "PCA4,HNSW8");
  ASSERT_TRUE((*index)->Train(RandomValues(100 * 8, 7)).ok());
  ASSERT_TRUE((*index)->Save(path).ok());
  const std::unique_ptr<faiss::Index> stored(faiss::read_index(path.c_str()));
  std::filesystem::remove(path);
  const auto* map = dynamic_cast<const faiss::IndexIDMap*>(stored.get());
  ASSERT_NE(map, nullptr);
  const auto* transformed = dynamic_cast<const faiss::IndexPreTransform*>(map->index);
  ASSERT_NE(transformed, nullptr);
  const auto* graph = dynamic_cast<const faiss::IndexHNSW*>(transformed->index);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->hnsw.efSearch, 128);
}

TEST(VectorIndexTest, RejectsInvalidIndexes) {
  for (const char* factory :
       {"", "nonsense", "PQ0", "PQ3", "IVF0,Flat", "IVF99999999999,Flat", "PQ4x64", "OPQ0,Flat"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(VectorIndex::Create(8, factory).status())) << factory;
  }
  // FAISS crashes on these, or never returns, for some numbers of vectors.
  for (const char* factory :
       {"ZnLattice1000x10_4", "SQ4,Refine(ZnLattice1000x10_4)", "NSG16", "NSG32,Flat",
        "IVF4_NSG4,Flat", "HNSW1", "IVF8_HNSW1,Flat", "IVF4(PQ4x4),Flat"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(VectorIndex::CheckFactory(factory))) << factory;
    EXPECT_EQ(VectorIndex::Create(8, factory).status(), VectorIndex::CheckFactory(factory));
  }
  EXPECT_THAT(VectorIndex::CheckFactory("NSG16").message(),
              testing::HasSubstr("got NSG, expected numbers, commas, underscores and Flat, IVF"));
  EXPECT_TRUE(absl::IsInvalidArgument(VectorIndex::Create(0, "Flat").status()));
}

TEST(VectorIndexTest, SurvivesSaveAndLoad) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("index-" + std::to_string(getpid()) + ".faiss");
  auto index = VectorIndex::Create(8, "IVF4,Flat");
  const std::vector<float> values = RandomValues(300 * 8, 4);
  ASSERT_TRUE((*index)->Train(values).ok());
  std::vector<int64_t> ids(300);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i) * 3;
  ASSERT_TRUE((*index)->Add(ids, values).ok());
  const auto file = (*index)->Save(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes, static_cast<int64_t>(std::filesystem::file_size(path)));

  const ManifestEntry entry = MakeManifestEntry(*file, 300);
  auto loaded = VectorIndex::Load(path.parent_path(), entry);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  Output before(300 * 5), after(300 * 5);
  ASSERT_TRUE((*index)->Search(values, 5, before).ok());
  ASSERT_TRUE((*loaded)->Search(values, 5, after).ok());
  EXPECT_EQ(before.ids, after.ids);
  EXPECT_EQ(before.scores, after.scores);
  std::filesystem::remove(path);
}

// FAISS itself accepts many damaged files or crashes, because it does not check sizes, indices and
// vectors.
TEST(VectorIndexTest, RefusesDamagedFilesBeforeFaissReadsThem) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("flips-" + std::to_string(getpid()) + ".faiss");
  auto index = VectorIndex::Create(4, "IVF2,Flat");
  const std::vector<float> values = RandomValues(100 * 4, 5);
  ASSERT_TRUE((*index)->Train(values).ok());
  const ManifestEntry entry = MakeManifestEntry(*(*index)->Save(path), 0);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (int64_t i = 0; i < entry.bytes; ++i) {
    file.seekg(i);
    const int byte = file.get();
    const auto put = [&](int value) {
      file.seekp(i);
      file.put(static_cast<char>(value));
      file.flush();
    };
    put(byte ^ 1 << i % 8);
    const absl::Status status = VectorIndex::Load(path.parent_path(), entry).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << i << ": " << status;
    EXPECT_NE(status.message().find("CRC-32C"), std::string::npos) << "found before FAISS reads";
    put(byte);
  }
  EXPECT_TRUE(VectorIndex::Load(path.parent_path(), entry).ok());
  std::filesystem::resize_file(path, 100);
  EXPECT_TRUE(absl::IsDataLoss(VectorIndex::Load(path.parent_path(), entry).status()));
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsNotFound(VectorIndex::Load(path.parent_path(), entry).status()));
}

}  // namespace vector_index_test
}  // namespace braid
