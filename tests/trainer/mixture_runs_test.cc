// Mixtures in whole runs: what is trained on, what is recorded, and that a resume and another
// number of ranks do the same.
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "formats/packed_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/gradient_pass.h"
#include "trainer/training_data.h"
#include "trainer/validation.h"

namespace braid {
namespace mixture_runs_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class MixtureRunTest : public testing::Test {
 protected:
  MixtureRunTest() {
    const int64_t sizes[] = {37, 11, 200};
    for (uint64_t d = 0; d < 3; ++d) {
      datasets_.push_back(NewDirectory("data"));
      WriteTinyDataset(datasets_.back(), {.num_instances = sizes[d], .seed = d + 1});
    }
  }

  v1::RunSpec Spec(const std::vector<double>& shares, int64_t num_steps) {
    v1::RunSpec spec = TinySpec(datasets_[0], num_steps);
    for (size_t d = 0; d < shares.size(); ++d) {
      v1::MixtureDataset* const entry = spec.add_datasets();
      entry->set_dataset(datasets_[d].string());
      entry->set_share(shares[d]);
    }
    return *ResolveRunSpec(spec);
  }

  std::vector<fs::path> datasets_;
};

TEST_F(MixtureRunTest, RecordsSharesAndLossesOfEveryDataset) {
  const RunDirectory run = Trained(Spec({0.5, 0.25, 0.25}, 40));
  std::vector<int64_t> totals(3);
  for (const v1::StepMetrics& m : MetricsOf(run)) {
    ASSERT_EQ(m.datasets_size(), 3);
    double weighted = 0, sequences = 0;
    for (int d = 0; d < 3; ++d) {
      const v1::DatasetLoss& dataset = m.datasets(d);
      EXPECT_EQ(dataset.dataset(), datasets_[d].string());
      totals[d] += dataset.num_instances();
      EXPECT_EQ(dataset.total_instances(), totals[d]);
      weighted += dataset.loss() * static_cast<double>(dataset.num_instances());
      sequences += static_cast<double>(dataset.num_instances());
    }
    EXPECT_EQ(sequences, 4);
    // Every dataset has one short sequence, so the means differ a little at some steps.
    EXPECT_NEAR(weighted / sequences, m.loss(), 0.25);
  }
  EXPECT_THAT(totals, ElementsAre(80, 40, 40));
}

TEST_F(MixtureRunTest, ValidationNamesDatasetsWithoutAHeldoutSplit) {
  const auto remove_split = [](const fs::path& dataset) {
    DatasetInfo info = *ReadDatasetInfo(dataset);
    info.domains.clear();
    ASSERT_TRUE(WriteDatasetInfo(dataset, info).ok());
    SealDataset(dataset);
  };
  v1::RunSpec spec = Spec({0.5, 0.5}, 2);
  spec.mutable_validation()->mutable_every()->set_steps(2);
  remove_split(datasets_[1]);
  spec = *ResolveRunSpec(spec);
  std::ostringstream out;
  EXPECT_OK(TrainAlone(RunDirectory(NewDirectory("run")), spec, -1, &std::cerr, &out).status());
  EXPECT_THAT(out.str(), HasSubstr("; no held-out split in " + datasets_[1].string()));
  remove_split(datasets_[0]);
  const absl::Status status = ResolveRunSpec(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("in " + datasets_[0].string() + ", " + datasets_[1].string() + "; pack"));
}

TEST_F(MixtureRunTest, TheLossIsThatOfTheOnlyDatasetOfAPhase) {
  v1::RunSpec spec = Spec({1, 0, 0}, 8);
  v1::SharePhase* const phase = spec.add_share_phases();
  phase->mutable_after()->set_fraction(0.5);
  for (const double share : {0.0, 0.0, 1.0}) phase->add_shares(share);
  const std::vector<v1::StepMetrics> metrics = MetricsOf(Trained(*ResolveRunSpec(spec)));
  ASSERT_EQ(metrics.size(), 8u);
  for (size_t i = 0; i < metrics.size(); ++i) {
    for (int d = 0; d < 3; ++d) {
      const bool used = d == (i < 4 ? 0 : 2);
      EXPECT_NEAR(metrics[i].datasets(d).loss(), used ? metrics[i].loss() : 0, 1e-6)
          << "dataset " << d << " after step " << i;
      EXPECT_EQ(metrics[i].datasets(d).num_instances(), used ? 4 : 0);
    }
  }
}

TEST_F(MixtureRunTest, OneDatasetTrainsAsWithoutAMixture) {
  const RunDirectory mixed = Trained(Spec({1}, 12));
  const RunDirectory plain = Trained(TinySpec(datasets_[0], 12));
  EXPECT_EQ(NewestWeights(mixed), NewestWeights(plain));
}

TEST_F(MixtureRunTest, ResumeIsBitExactAcrossAPhase) {
  v1::RunSpec spec = Spec({0.5, 0.25, 0.25}, 20);
  v1::SharePhase* const phase = spec.add_share_phases();
  phase->mutable_after()->set_fraction(0.5);
  for (const double share : {0.0, 0.1, 0.9}) phase->add_shares(share);
  spec = *ResolveRunSpec(spec);
  const RunDirectory whole = Trained(spec);
  EXPECT_EQ(MetricsOf(whole)[9].datasets(0).num_instances(), 2);
  EXPECT_EQ(MetricsOf(whole)[10].datasets(0).num_instances(), 0);
  for (const int64_t stop_after : {4, 10, 13}) {
    RunDirectory run(NewDirectory("run"));
    ASSERT_EQ(*TrainAlone(run, spec, stop_after), TrainingOutcome::kInterrupted);
    ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
    EXPECT_EQ(LossLines(run), LossLines(whole)) << stop_after;
    EXPECT_EQ(NewestWeights(run), NewestWeights(whole)) << stop_after;
  }
}

TEST_F(MixtureRunTest, AnotherNumberOfRanksReadsTheSame) {
  v1::RunSpec spec = Spec({0.5, 0.25, 0.25}, 12);
  const auto alone = MetricsOf(Trained(spec));
  spec.set_world_size(3);
  spec.mutable_batch()->clear_micro_batch_size();
  const auto together = MetricsOf(Trained(*ResolveRunSpec(spec)));
  ASSERT_EQ(together.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(together[i].loss(), alone[i].loss(), 1e-5 * alone[i].loss());
    for (int d = 0; d < 3; ++d) {
      EXPECT_NEAR(together[i].datasets(d).loss(), alone[i].datasets(d).loss(), 1e-4);
      EXPECT_EQ(together[i].datasets(d).total_instances(), alone[i].datasets(d).total_instances());
    }
  }
}

TEST_F(MixtureRunTest, ValidatesOnEveryDataset) {
  v1::RunSpec spec = Spec({0.5, 0.25, 0.25}, 4);
  spec.mutable_validation()->mutable_every()->set_steps(4);
  spec.mutable_validation()->set_windows(24);
  const auto metrics = MetricsOf(Trained(*ResolveRunSpec(spec)));
  const v1::ValidationMetrics& validation = metrics.back().validation();
  EXPECT_EQ(validation.num_windows(), 24);
  ASSERT_EQ(validation.domains_size(), 6);
  EXPECT_EQ(validation.domains(0).dataset(), datasets_[0].string());
  EXPECT_EQ(validation.domains(5).dataset(), datasets_[2].string());
  EXPECT_EQ(validation.domains(5).domain(), "odd");
}

TEST_F(MixtureRunTest, ValidatesOnTheSameWindowsAfterAMove) {
  v1::RunSpec spec = Spec({0.5, 0.25, 0.25}, 4);
  spec.mutable_validation()->mutable_every()->set_steps(4);
  spec.mutable_validation()->set_windows(7);
  const auto windows = [&] {
    std::vector<int64_t> numbers;
    const Validation validation = Validation::Open(*ResolveRunSpec(spec)).value();
    for (const Validation::Domain& domain : validation.domains()) {
      numbers.insert(numbers.end(), domain.windows.begin(), domain.windows.end());
    }
    return numbers;
  };
  const std::vector<int64_t> before = windows();
  EXPECT_EQ(before.size(), 7u);
  spec.clear_dataset_dir();  // that of the first
  for (v1::MixtureDataset& entry : *spec.mutable_datasets()) {
    const fs::path copy = NewDirectory("copy") / "data";
    fs::copy(entry.dataset(), copy, fs::copy_options::recursive);
    entry.set_dataset(copy.string());
  }
  EXPECT_EQ(windows(), before);
}

// Instances of the same number, but of other datasets, have random numbers of their own.
TEST_F(MixtureRunTest, InstancesOfDatasetsHaveTheirOwnIdentities) {
  const TrainingData data =
      TrainingData::Open(Spec({0.5, 0.25, 0.25}, 40), /*verify=*/false).value();
  std::set<std::pair<int32_t, int64_t>> instances;
  std::set<int64_t> identities;
  for (int64_t step = 0; step < 40; ++step) {
    const RankBatch work = data.Load(step, 0, 1).value();
    const std::vector<int64_t> ids = SequenceIdentities(work, 0, work.batch.batch_size);
    for (size_t i = 0; i < work.instances.size(); ++i) {
      instances.insert({work.datasets[i], work.instances[i]});
      identities.insert(ids[i]);
      if (work.datasets[i] > 0) continue;
      EXPECT_EQ(ids[i], work.instances[i]);
    }
  }
  EXPECT_EQ(identities.size(), instances.size());
}

TEST_F(MixtureRunTest, ADamagedDatasetIsNamed) {
  const v1::RunSpec spec = Spec({0.5, 0.25, 0.25}, 4);
  const fs::path file = datasets_[1] / "instances.bin";
  std::string bytes = *ReadFile(file);
  bytes[bytes.size() / 2] ^= 4;
  ASSERT_TRUE(WriteFileAtomically(file, bytes).ok());
  const auto outcome = TrainAlone(RunDirectory(NewDirectory("run")), spec);
  EXPECT_TRUE(absl::IsDataLoss(outcome.status()));
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr(file.string()));
}

}  // namespace mixture_runs_test
}  // namespace braid
