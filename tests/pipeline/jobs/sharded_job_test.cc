// Jobs that embed and search through servers give the same bytes as jobs without servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "retrieval/embedding_service.h"
#include "retrieval/hashing_embedder.h"
#include "retrieval/neighbor_service.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/jobs/faulty_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"
#include "tests/retrieval/retrieval_server.h"

namespace braid {
namespace sharded_job_test {

namespace fs = std::filesystem;

class ShardedJobTest : public testing::Test {
 protected:
  ShardedJobTest() : corpus_(NewDirectory() / "tiny.jsonl") { WriteCorpus(corpus_); }

  // Returns the stages that were built.
  std::vector<std::string> Run(const fs::path& home, const v1::CorpusSpec& spec) {
    StageStore store(home / "store", {.chunk_bytes = 6000});
    std::vector<std::string> made;
    const JobHooks hooks = {.report =
                                [&](const v1::StageProgress& progress) {
                                  if (progress.complete() && !progress.reused()) {
                                    made.push_back(progress.stage());
                                  }
                                },
                            .stop = [] { return false; }};
    const auto resolved = ResolveCorpusSpec(spec);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    const auto result = RunJob(*resolved, &store, hooks);
    EXPECT_TRUE(result.ok()) << result.status();
    return made;
  }

  v1::CorpusSpec ShardedSpec(const std::vector<std::string>& addresses) {
    v1::CorpusSpec spec = SmallSpec(corpus_);
    for (const std::string& address : addresses) spec.mutable_neighbors()->add_addresses(address);
    return spec;
  }

  fs::path corpus_;
};

TEST_F(ShardedJobTest, GivesTheSameBytesUnderTheSameKeysAndLeavesNoShard) {
  const fs::path alone = NewDirectory(), sharded = NewDirectory(), shards = NewDirectory();
  LocalServer first(MakeNeighborService(shards / "1")), second(MakeNeighborService(shards / "2"));
  Run(alone, SmallSpec(corpus_));
  const v1::CorpusSpec spec = ShardedSpec({first.address(), second.address()});
  EXPECT_EQ(Run(sharded, spec), StageNames());
  EXPECT_TRUE(StoreContents(sharded) == StoreContents(alone));
  EXPECT_THAT(Run(alone, spec), testing::IsEmpty()) << "no key names an address";
  EXPECT_TRUE(fs::is_empty(shards / "1"));
  EXPECT_TRUE(fs::is_empty(shards / "2"));
}

TEST_F(ShardedJobTest, FindsTheSameNeighborsThroughLists) {
  const fs::path alone = NewDirectory(), sharded = NewDirectory(), shards = NewDirectory();
  LocalServer first(MakeNeighborService(shards / "1")), second(MakeNeighborService(shards / "2"));
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.mutable_neighbors()->set_index("IVF8,Flat");
  spec.mutable_neighbors()->set_nprobe(2);
  Run(alone, spec);
  spec.mutable_neighbors()->add_addresses(first.address());
  spec.mutable_neighbors()->add_addresses(second.address());
  Run(sharded, spec);
  EXPECT_TRUE(StoreContents(sharded) == StoreContents(alone));
}

TEST_F(ShardedJobTest, IsTheSameFromOneReplicaAndFromTwo) {
  const std::shared_ptr<const Embedder> embedder =
      *HashingEmbedder::Create(HashingOptions(), std::nullopt);
  LocalServer first(MakeEmbeddingService(embedder)), second(MakeEmbeddingService(embedder));
  const fs::path one = NewDirectory(), two = NewDirectory();
  v1::CorpusSpec spec = SmallSpec(corpus_);
  *spec.mutable_embedder() = {};
  spec.mutable_embedder()->set_kind("remote");
  spec.mutable_embedder()->add_addresses(first.address());
  Run(one, spec);
  spec.mutable_embedder()->add_addresses(second.address());
  EXPECT_EQ(Run(two, spec), StageNames());
  EXPECT_TRUE(StoreContents(one) == StoreContents(two));
}

// An embedder that reports another fingerprint from the second stream on, like a server that was
// replaced between two calls of a job.
class ExchangedEmbedder final : public Embedder {
 public:
  int32_t dimension() const override { return 4; }
  absl::Status Embed(std::span<const std::string_view>, std::span<float>) const override {
    return absl::InternalError("not to be called");
  }
  std::string fingerprint() const override { return num_asked_++ == 0 ? "model-a" : "model-b"; }

 private:
  mutable std::atomic<int> num_asked_ = 0;
};

TEST_F(ShardedJobTest, StoresNoVectorsOfAnEmbedderThatChanged) {
  LocalServer server(MakeEmbeddingService(std::make_shared<ExchangedEmbedder>()));
  v1::CorpusSpec spec = SmallSpec(corpus_);
  *spec.mutable_embedder() = {};
  spec.mutable_embedder()->set_kind("remote");
  spec.mutable_embedder()->add_addresses(server.address());
  StageStore store(NewDirectory() / "store");
  const JobHooks hooks = {.report = [](const v1::StageProgress&) {}, .stop = [] { return false; }};
  EXPECT_FAILS(RunJob(*ResolveCorpusSpec(spec), &store, hooks),
               absl::StatusCode::kFailedPrecondition, "embed", "\"model-a\"", "\"model-b\"");
}

TEST_F(ShardedJobTest, ResumesFromEveryPointAtWhichItWasStopped) {
  const fs::path alone = NewDirectory(), shards = NewDirectory();
  LocalServer first(MakeNeighborService(shards / "1")), second(MakeNeighborService(shards / "2"));
  const v1::CorpusSpec spec = ShardedSpec({first.address(), second.address()});
  Run(alone, SmallSpec(corpus_));
  const auto contents = StoreContents(alone);
  for (const int stop_at : {1, 2, 3, 5, 8}) {
    const fs::path home = NewDirectory();
    StageStore store(home / "store", {.chunk_bytes = 6000});
    int seen = 0;
    const JobHooks hooks = {
        .report =
            [&](const v1::StageProgress& progress) { seen += progress.stage() == "neighbors"; },
        .stop = [&] { return seen >= stop_at; }};
    EXPECT_TRUE(absl::IsCancelled(RunJob(*ResolveCorpusSpec(spec), &store, hooks).status()));
    Run(home, spec);
    EXPECT_TRUE(StoreContents(home) == contents) << stop_at;
  }
  EXPECT_TRUE(fs::is_empty(shards / "1"));
}

}  // namespace sharded_job_test
}  // namespace braid
