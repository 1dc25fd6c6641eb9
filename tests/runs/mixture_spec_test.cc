#include "runs/mixture_spec.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "formats/packed_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/run_spec.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace mixture_spec_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class MixtureSpecTest : public testing::Test {
 protected:
  MixtureSpecTest() : first_(NewDirectory("data")), second_(NewDirectory("data")) {
    WriteTinyDataset(first_, {.num_instances = 40, .seed = 1});
    WriteTinyDataset(second_, {.num_instances = 10, .seed = 2});
    for (const fs::path& path : {first_, second_}) {
      v1::MixtureDataset* const entry = spec_.add_datasets();
      entry->set_dataset(path.string());
      entry->set_share(0.5);
    }
    spec_.set_num_steps(100);
  }

  std::string ErrorOf(const std::function<void(v1::RunSpec*)>& change) const {
    v1::RunSpec spec = spec_;
    change(&spec);
    const auto resolved = ResolveRunSpec(spec);
    return resolved.ok() ? "no error" : std::string(resolved.status().message());
  }

  static void SetEpochs(double first, double second, v1::RunSpec* spec) {
    for (v1::MixtureDataset& entry : *spec->mutable_datasets()) entry.clear_share();
    spec->mutable_datasets(0)->set_epochs(first);
    spec->mutable_datasets(1)->set_epochs(second);
    spec->clear_num_steps();
  }

  fs::path first_, second_;
  v1::RunSpec spec_;
};

TEST_F(MixtureSpecTest, ResolvesToSharesAndAbsolutePaths) {
  spec_.mutable_datasets(0)->set_share(0.8);
  spec_.mutable_datasets(1)->set_share(0.2);
  const auto resolved = ResolveRunSpec(spec_);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->dataset_dir(), first_.string());
  v1::RunSpec slash = spec_;
  slash.mutable_datasets(0)->set_dataset(first_.string() + "/./");
  EXPECT_EQ(ResolveRunSpec(slash)->DebugString(), resolved->DebugString());
  EXPECT_EQ(ResolveRunSpec(*resolved)->DebugString(), resolved->DebugString());
  spec_.clear_num_steps();
  EXPECT_EQ(ResolveRunSpec(spec_)->num_steps(), 13) << "one pass over 50 instances";
}

TEST_F(MixtureSpecTest, TokensAndEpochsGiveSharesAndSteps) {
  SetEpochs(1, 3, &spec_);
  auto resolved = ResolveRunSpec(spec_);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->num_steps(), 18);  // 40 + 30 instances in batches of 4
  EXPECT_NEAR(resolved->datasets(0).share(), 4.0 / 7, 1e-12);
  EXPECT_EQ(ResolveRunSpec(*resolved)->DebugString(), resolved->DebugString());

  spec_.mutable_datasets(1)->clear_epochs();
  spec_.mutable_datasets(1)->set_tokens(32 * 40);
  resolved = ResolveRunSpec(spec_);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->num_steps(), 20);
  EXPECT_NEAR(resolved->datasets(1).share(), 0.5, 1e-12);
}

TEST_F(MixtureSpecTest, RefusesSharesThatAreNoMixture) {
  const auto shares = [&](double a, double b) {
    return ErrorOf([=](v1::RunSpec* s) {
      s->mutable_datasets(0)->set_share(a);
      s->mutable_datasets(1)->set_share(b);
    });
  };
  EXPECT_THAT(shares(0.5, 0.4), HasSubstr("datasets: got shares that sum to 0.9, expected 1"));
  EXPECT_THAT(shares(-0.5, 1.5), HasSubstr("datasets: got the share -0.5 for dataset 0"));
  EXPECT_THAT(shares(0, 0), HasSubstr("sum to 0, expected 1; every share is 0"));
  EXPECT_THAT(shares(NAN, 1), HasSubstr("got the share nan"));
  EXPECT_EQ(shares(1, 0), "no error");
  EXPECT_EQ(shares(1.0 / 3, 0.6666667), "no error");
}

TEST_F(MixtureSpecTest, RefusesUnitsThatCannotBeCombined) {
  EXPECT_THAT(ErrorOf([](auto* s) { s->mutable_datasets(1)->clear_share(); }),
              HasSubstr("datasets[1]: got 0 of share, tokens and epochs, expected exactly one"));
  EXPECT_THAT(ErrorOf([](auto* s) { s->mutable_datasets(1)->set_epochs(1); }),
              HasSubstr("datasets[1]: got 2 of share"));
  EXPECT_THAT(ErrorOf([](auto* s) {
                s->mutable_datasets(1)->clear_share();
                s->mutable_datasets(1)->set_epochs(1);
              }),
              HasSubstr("datasets[1]: got tokens or epochs, expected a share"));
  EXPECT_THAT(
      ErrorOf([](auto* s) {
        SetEpochs(1, 1, s);
        s->set_num_steps(4);
      }),
      HasSubstr("num_steps: datasets with tokens or epochs determine the length of the run"));
  EXPECT_THAT(ErrorOf([](auto* s) {
                SetEpochs(1, 1, s);
                v1::SharePhase* const phase = s->add_share_phases();
                phase->mutable_after()->set_fraction(0.5);
                phase->add_shares(1);
                phase->add_shares(0);
              }),
              HasSubstr("share_phases: got phases with datasets in tokens or epochs"));
  EXPECT_THAT(ErrorOf([](auto* s) { SetEpochs(0, 0, s); }), HasSubstr("got 0 tokens of every"));
  EXPECT_THAT(ErrorOf([](auto* s) { SetEpochs(-1, 2, s); }), HasSubstr("datasets[0]: got -1"));
}

TEST_F(MixtureSpecTest, NamesTheDatasetThatIsExhaustedAndWhen) {
  const std::string error =
      ErrorOf([](auto* s) { s->mutable_datasets(1)->set_max_repetitions(2); });
  EXPECT_THAT(error, AllOf(HasSubstr(second_.string() + " is exhausted at step 11 of 100"),
                           HasSubstr("needed 20 times"), HasSubstr("lower its share")));
  EXPECT_LE(error.size(), 300u + second_.string().size());
  EXPECT_EQ(ErrorOf([](auto* s) { s->mutable_datasets(1)->set_max_repetitions(20); }), "no error");
  EXPECT_EQ(ErrorOf([](auto* s) {
              SetEpochs(1, 3, s);
              s->mutable_datasets(0)->set_max_repetitions(1);
              s->mutable_datasets(1)->set_max_repetitions(3);
            }),
            "no error")
      << "whole epochs are not exhausted by rounding";
}

TEST_F(MixtureSpecTest, ALargeBatchAllowsNoMoreRepetitions) {
  const auto error = [&](int64_t steps) {
    return ErrorOf([&](v1::RunSpec* s) {
      s->mutable_batch()->set_global_batch_size(40);
      s->mutable_datasets(1)->set_max_repetitions(2);
      s->set_num_steps(steps);
    });
  };
  EXPECT_EQ(error(1), "no error");
  EXPECT_THAT(error(3), HasSubstr("is exhausted at step 2 of 3: max_repetitions is 2"));
}

TEST_F(MixtureSpecTest, NamesDatasetsThatDoNotFitEachOther) {
  WriteTinyDataset(second_, {.num_instances = 10, .sequence_length = 16, .seed = 2});
  EXPECT_THAT(ErrorOf([](auto*) {}),
              AllOf(HasSubstr("datasets[1]: got " + second_.string() + " with sequence_length 16"),
                    HasSubstr("expected 32 as in " + first_.string())));
  WriteTinyDataset(second_, {.num_instances = 10, .seed = 2});
  ASSERT_TRUE(WriteFileAtomically(second_ / "tokenizer.model", "another").ok());
  EXPECT_THAT(ErrorOf([](auto*) {}),
              HasSubstr("datasets[1]: got " + second_.string() + " with another tokenizer"));
  WriteTinyDataset(second_, {.num_instances = 10, .seed = 2});
  auto info = ReadDatasetInfo(second_);
  ASSERT_TRUE(info.ok());
  info->begin_with_bos = true;
  ASSERT_TRUE(WriteDatasetInfo(second_, *info).ok());
  EXPECT_THAT(ErrorOf([](auto*) {}),
              AllOf(HasSubstr("datasets[1]: got " + second_.string() + " with BOS before"),
                    HasSubstr("tokenizer.begin_with_bos false")));
  WriteTinyDataset(second_, {.num_instances = 10, .seed = 2});
  EXPECT_THAT(ErrorOf([&](auto* s) { s->mutable_datasets(1)->set_dataset(first_.string()); }),
              HasSubstr("expected each dataset once"));
  const std::string link = second_.string() + "-link";
  fs::create_symlink(first_, link);
  EXPECT_THAT(ErrorOf([&](auto* s) { s->mutable_datasets(1)->set_dataset(link); }),
              HasSubstr(link + ", expected each dataset once"));
  EXPECT_THAT(ErrorOf([&](auto* s) { s->mutable_datasets(1)->set_dataset("/nowhere"); }),
              HasSubstr("/nowhere is not a packed dataset"));
  EXPECT_THAT(ErrorOf([&](auto* s) { s->set_dataset_dir("/elsewhere"); }),
              HasSubstr("dataset_dir: got /elsewhere besides datasets"));
}

TEST_F(MixtureSpecTest, RefusesPhasesThatDoNotFitTheRun) {
  const auto phase = [&](int64_t after, const std::vector<double>& shares) {
    return ErrorOf([&](v1::RunSpec* s) {
      v1::SharePhase* const added = s->add_share_phases();
      added->mutable_after()->set_steps(after);
      for (const double share : shares) added->add_shares(share);
    });
  };
  EXPECT_EQ(phase(50, {0.1, 0.9}), "no error");
  EXPECT_THAT(phase(0, {0.1, 0.9}), HasSubstr("share_phases[0].after: got step 0, expected 1 to"));
  EXPECT_THAT(phase(100, {0.1, 0.9}), HasSubstr("got step 100, expected 1 to 99"));
  EXPECT_THAT(phase(50, {1}), HasSubstr("got 1 shares, expected one for each of the 2 datasets"));
  EXPECT_THAT(phase(50, {0.3, 0.3}), HasSubstr("share_phases[0].shares: got shares that sum to"));
}

}  // namespace mixture_spec_test
}  // namespace braid
