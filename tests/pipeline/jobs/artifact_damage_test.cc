// Verification detects any damage to a file that a job writes: flipped bits, truncation, swapped or
// copied files, and files of an older version.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "formats/manifest.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/store/stage_store.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace artifact_damage_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kFlips = 10'000;

// The bytes of a file, modified in place.
class BytesOnDisk {
 public:
  explicit BytesOnDisk(const fs::path& path) : size_(fs::file_size(path)) {
    const int file = open(path.c_str(), O_RDWR);
    void* data = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) std::abort();
    data_ = static_cast<char*>(data);
    close(file);
  }
  BytesOnDisk(const BytesOnDisk&) = delete;
  BytesOnDisk& operator=(const BytesOnDisk&) = delete;
  ~BytesOnDisk() { munmap(data_, size_); }

  size_t num_bits() const { return 8 * size_; }
  void Flip(size_t bit) { data_[bit / 8] = static_cast<char>(data_[bit / 8] ^ 1 << bit % 8); }

 private:
  const size_t size_;
  char* data_;
};

fs::path RunSmallJob(const std::string& more_text) {
  const fs::path home = NewDirectory();
  WriteCorpus(home / "corpus.jsonl");
  std::ofstream(home / "corpus.jsonl", std::ios::app)
      << "{\"id\": \"last\", \"text\": \"" << more_text << "\"}\n{\n";
  StageStore store(home / "store");
  const JobHooks hooks = {.report = [](const v1::StageProgress&) {}, .stop = [] { return false; }};
  const auto result = RunJob(*ResolveCorpusSpec(SmallSpec(home / "corpus.jsonl")), &store, hooks);
  EXPECT_TRUE(result.ok()) << result.status();
  return home / "store";
}

std::vector<fs::path> StagesIn(const fs::path& store) {
  std::set<fs::path> stages;
  for (const auto& entry : fs::directory_iterator(store)) stages.insert(entry.path());
  return {stages.begin(), stages.end()};
}

class ArtifactDamageTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    store_ = new fs::path(RunSmallJob("The first version of the corpus."));
    older_ = new fs::path(RunSmallJob("An older version, with a word more."));
  }
  static void TearDownTestSuite() {
    delete store_;
    delete older_;
  }
  static std::vector<fs::path> Stages() { return StagesIn(*store_); }

  // Returns a copy of a stage output that a test may damage.
  static fs::path Copy(const fs::path& stage) {
    const fs::path copy = NewDirectory() / stage.filename();
    fs::copy(stage, copy, fs::copy_options::recursive);
    return copy;
  }

  // Damages a copy of `stage` and expects an error that names the file.
  static void ExpectRefused(const fs::path& stage, const std::string& named,
                            const std::function<void(const fs::path& copy)>& damage) {
    const fs::path copy = Copy(stage);
    damage(copy);
    const absl::Status status = LoadVerifiedManifest(copy).status();
    EXPECT_FALSE(status.ok()) << stage << " " << named;
    EXPECT_THAT(std::string(status.message()), HasSubstr((copy / named).string()));
    fs::remove_all(copy.parent_path());
  }

  static fs::path* store_;
  static fs::path* older_;
};

fs::path* ArtifactDamageTest::store_ = nullptr;
fs::path* ArtifactDamageTest::older_ = nullptr;

TEST_F(ArtifactDamageTest, EveryFileOfEveryStageIsListedInItsManifest) {
  std::set<std::string> names;
  for (const fs::path& stage : Stages()) {
    const auto manifest = LoadVerifiedManifest(stage);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    for (const auto& entry : fs::recursive_directory_iterator(stage)) {
      if (!entry.is_regular_file() || entry.path().filename() == kManifestName) continue;
      const std::string name = entry.path().lexically_relative(stage).string();
      EXPECT_NE(manifest->Find(name), nullptr) << entry.path();
      names.insert(name);
    }
  }
  for (const char* kind :
       {"texts.bin", "text_offsets.npy", "ids.bin", "domains.json", "rejects.jsonl",
        "tokenizer.model", "embeddings.npy", "order.npy", "instances.bin", "instances.idx",
        "heldout/code.bin", "dataset.json", "ordering_report.json"}) {
    EXPECT_TRUE(names.contains(kind)) << kind;
  }
}

// Flips random bits of a file, one at a time, and counts those after which `accepted` still holds.
int AcceptedFlips(const fs::path& path, int flips, const std::function<bool()>& accepted) {
  BytesOnDisk bytes(path);
  std::mt19937_64 random(bytes.num_bits());
  int num_accepted = 0;
  for (int i = 0; i < flips; ++i) {
    const size_t bit = random() % bytes.num_bits();
    bytes.Flip(bit);
    if (accepted()) ++num_accepted;
    bytes.Flip(bit);
  }
  return num_accepted;
}

// Returns whether the file is of a kind not tested yet: the held-out files of all domains are
// alike.
bool IsNewKind(const std::string& name) {
  return !name.starts_with("heldout/") || name.starts_with("heldout/code");
}

TEST_F(ArtifactDamageTest, TenThousandRandomFlipsOfEachKindOfFileAreDetected) {
  std::atomic<int> num_files = 0;
  std::vector<std::jthread> threads;
  for (const fs::path& stage : Stages()) {
    threads.emplace_back([stage, &num_files] {
      const Manifest manifest = *LoadVerifiedManifest(stage);
      const fs::path copy = Copy(stage);
      for (const ManifestEntry& entry : manifest.files) {
        if (entry.bytes == 0 || !IsNewKind(entry.name)) continue;
        ++num_files;
        EXPECT_EQ(AcceptedFlips(copy / entry.name, kFlips,
                                [&] { return !absl::IsDataLoss(VerifyFile(copy, entry)); }),
                  0)
            << entry.name;
        EXPECT_TRUE(VerifyFile(copy, entry).ok()) << entry.name;
      }
    });
  }
  threads.clear();
  EXPECT_GT(num_files, 25);
  std::cout << num_files << " kinds of files\n";
}

TEST_F(ArtifactDamageTest, TenThousandRandomFlipsOfManifestsAreDetected) {
  const std::vector<fs::path> stages = Stages();
  for (const fs::path& stage : stages) {
    const fs::path copy = Copy(stage);
    EXPECT_EQ(AcceptedFlips(copy / kManifestName, 1 + kFlips / static_cast<int>(stages.size()),
                            [&] { return Manifest::Load(copy).ok(); }),
              0)
        << stage;
  }
}

// Checks all 524,288 bits: for each, the CRC of the changed content, combined from those of its
// parts; for one in 64, also a changed file on disk.
TEST_F(ArtifactDamageTest, EverySingleBitFlipOfSixtyFourKibibytesIsDetected) {
  const fs::path directory = NewDirectory();
  std::string content(64 << 10, '\0');
  std::mt19937_64 random(1);
  for (char& c : content) c = static_cast<char>(random());
  const auto file = AtomicFile::Create(directory / "artifact");
  ASSERT_TRUE((*file)->Append(content).ok());
  const ManifestEntry entry = MakeManifestEntry(*(*file)->Commit(), 1);
  BytesOnDisk bytes(directory / "artifact");
  for (size_t bit = 0; bit < 8 * content.size(); ++bit) {
    const char before = content[bit / 8];
    const char after = static_cast<char>(before ^ 1 << bit % 8);
    const uint32_t crc = Crc32cReplace(entry.crc32c, Crc32c({&before, 1}), Crc32c({&after, 1}),
                                       static_cast<int64_t>(content.size() - bit / 8 - 1));
    ASSERT_NE(crc, entry.crc32c) << "bit " << bit;
    if (bit % 64 != bit / 64 % 64) continue;
    bytes.Flip(bit);
    ASSERT_TRUE(absl::IsDataLoss(VerifyFile(directory, entry))) << "bit " << bit;
    ASSERT_EQ(SummarizeFile(directory / "artifact")->crc32c, crc);
    bytes.Flip(bit);
  }
}

TEST_F(ArtifactDamageTest, TruncatedExtendedAndMissingFilesAreRefusedByName) {
  for (const fs::path& stage : Stages()) {
    const Manifest manifest = *Manifest::Load(stage);
    for (const ManifestEntry& entry : manifest.files) {
      ExpectRefused(stage, entry.name,
                    [&](const fs::path& copy) { fs::remove(copy / entry.name); });
      ExpectRefused(stage, entry.name, [&](const fs::path& copy) {
        std::ofstream(copy / entry.name, std::ios::app | std::ios::binary).put('\0');
      });
      for (const int64_t bytes : {int64_t{0}, entry.bytes / 2, entry.bytes - 1}) {
        if (bytes < 0 || bytes == entry.bytes) continue;
        ExpectRefused(stage, entry.name, [&](const fs::path& copy) {
          fs::resize_file(copy / entry.name, static_cast<uintmax_t>(bytes));
        });
      }
    }
    for (const int bytes : {0, 1, 100}) {
      ExpectRefused(stage, kManifestName,
                    [&](const fs::path& copy) { fs::resize_file(copy / kManifestName, bytes); });
    }
  }
}

TEST_F(ArtifactDamageTest, SwappedAndDuplicatedFilesAreRefusedByName) {
  for (const fs::path& stage : Stages()) {
    const Manifest manifest = *Manifest::Load(stage);
    for (size_t i = 0; i + 1 < manifest.files.size(); ++i) {
      const ManifestEntry &a = manifest.files[i], &b = manifest.files[i + 1];
      if (a.bytes == b.bytes && a.crc32c == b.crc32c) continue;  // nothing to tell apart
      ExpectRefused(stage, a.name, [&](const fs::path& copy) {
        fs::rename(copy / a.name, copy / "held");
        fs::rename(copy / b.name, copy / a.name);
        fs::rename(copy / "held", copy / b.name);
      });
      ExpectRefused(stage, b.name, [&](const fs::path& copy) {
        fs::copy_file(copy / a.name, copy / b.name, fs::copy_options::overwrite_existing);
      });
    }
  }
}

TEST_F(ArtifactDamageTest, FilesOfAnotherVersionAreRefusedByName) {
  std::map<std::string, fs::path> older;
  for (const fs::path& stage : StagesIn(*older_)) older[Manifest::Load(stage)->kind] = stage;
  int num_older = 0;
  for (const fs::path& stage : Stages()) {
    const Manifest manifest = *Manifest::Load(stage);
    const fs::path other = older.at(manifest.kind);
    const Manifest other_manifest = *Manifest::Load(other);
    for (const ManifestEntry& entry : manifest.files) {
      const ManifestEntry* theirs = other_manifest.Find(entry.name);
      if (theirs == nullptr || theirs->crc32c == entry.crc32c) continue;
      ++num_older;
      ExpectRefused(stage, entry.name, [&](const fs::path& copy) {
        fs::copy_file(other / entry.name, copy / entry.name, fs::copy_options::overwrite_existing);
      });
    }
    // The manifest of the older output with the files of this one: the key reveals it if no file
    // does.
    const fs::path copy = Copy(stage);
    fs::copy_file(other / kManifestName, copy / kManifestName,
                  fs::copy_options::overwrite_existing);
    const auto loaded = LoadVerifiedManifest(copy);
    EXPECT_TRUE(!loaded.ok() || loaded->key != manifest.key) << stage;
  }
  EXPECT_GT(num_older, 15);
}

// A complete output of another job in this directory verifies, but has another key.
TEST_F(ArtifactDamageTest, RefusesTheOutputOfAnotherKey) {
  for (const fs::path& stage : Stages()) {
    const Manifest manifest = *Manifest::Load(stage);
    const fs::path root = NewDirectory();
    StageStore store(root);
    std::string key = manifest.key;
    key.back() = key.back() == '0' ? '1' : '0';
    fs::copy(stage, store.DirectoryOf(manifest.kind, key), fs::copy_options::recursive);
    int builds = 0;
    const auto made = store.Produce(manifest.kind, key, [&](StageWriter& writer) {
      ++builds;
      return writer.AddText("made", "again", 1);
    });
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(builds, 1) << stage;
    EXPECT_EQ(made->manifest.key, key);
  }
}

}  // namespace artifact_damage_test
}  // namespace braid
