#include "runs/mixture_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/splitmix.h"
#include "gtest/gtest.h"

namespace braid {
namespace mixture_schedule_test {

using Counts = std::vector<int64_t>;

std::vector<MixtureSchedule::Source> Sources() { return {{"a", 50}, {"b", 7}, {"c", 1000}}; }

MixtureSchedule Simple(const std::vector<double>& shares, int64_t batch = 4, uint64_t seed = 3) {
  return {Sources(), {{.begin_step = 0, .shares = shares}}, seed, {.full = batch}};
}

Counts Walk(const MixtureSchedule& schedule, int64_t steps, int64_t batch) {
  Counts counts(3);
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t slot = 0; slot < batch; ++slot) ++counts[schedule.At(step, slot).dataset];
  }
  return counts;
}

TEST(ShareSplitterTest, EverySlotHasOneDatasetInOrder) {
  uint64_t state = 1;
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> shares;
    for (int d = 0; d < 1 + trial % 6; ++d) {
      const uint64_t bits = NextSplitMix64(&state);
      shares.push_back(bits % 4 == 0 ? 0 : UnitInterval(bits));
    }
    shares[trial % shares.size()] += 0.1;
    const ShareSplitter splitter(shares);
    Counts counts(shares.size());
    for (int64_t slot = 0; slot < 500; ++slot) {
      ASSERT_EQ(splitter.CountsBefore(slot), counts) << slot;
      const ShareSplitter::Place place = splitter.At(slot);
      ASSERT_GT(shares[place.dataset], 0);
      ASSERT_EQ(place.number, counts[place.dataset]) << slot;
      ++counts[place.dataset];
    }
  }
}

TEST(ShareSplitterTest, CountsStayWithinHalfASlotPerDataset) {
  const std::vector<double> shares = {0.7, 0.2, 0.09, 0.01};
  const ShareSplitter splitter(shares);
  for (const int64_t n :
       {int64_t{1}, int64_t{10}, int64_t{999}, int64_t{123456}, int64_t{1} << 40}) {
    const Counts counts = splitter.CountsBefore(n);
    for (size_t d = 0; d < shares.size(); ++d) {
      // 2^-48 of the slots for the rounding of the parts.
      EXPECT_NEAR(static_cast<double>(counts[d]), shares[d] * static_cast<double>(n),
                  2 + static_cast<double>(n) * 0x1p-46)
          << n;
    }
  }
}

// The promise is a tenth of a percent at every thousandth step, even for batches of one sequence.
TEST(MixtureScheduleTest, SharesHoldWithinATenthOfAPercentEveryThousandSteps) {
  const std::vector<double> shares = {0.634, 0.3, 0.066};
  for (const int64_t batch : {1, 3, 4, 64}) {
    const MixtureSchedule schedule = Simple(shares, batch);
    for (int64_t step = 1000; step <= 50000; step += 1000) {
      const Counts counts = schedule.CountsBefore(step);
      for (size_t d = 0; d < shares.size(); ++d) {
        EXPECT_NEAR(static_cast<double>(counts[d]) / static_cast<double>(step * batch), shares[d],
                    0.001);
      }
    }
  }
}

TEST(MixtureScheduleTest, CountsAreThoseOfAWalk) {
  const MixtureSchedule schedule(Sources(),
                                 {{.begin_step = 0, .shares = {0.5, 0.5, 0}},
                                  {.begin_step = 7, .shares = {0, 0.1, 0.9}},
                                  {.begin_step = 30, .shares = {0.2, 0.3, 0.5}}},
                                 3, {.full = 4});
  for (const int64_t step : {0, 1, 6, 7, 8, 29, 30, 31, 100}) {
    EXPECT_EQ(schedule.CountsBefore(step), Walk(schedule, step, 4)) << step;
  }
  for (int64_t slot = 0; slot < 4; ++slot) {
    EXPECT_NE(schedule.At(6, slot).dataset, 2);
    EXPECT_NE(schedule.At(7, slot).dataset, 0);
  }
}

TEST(MixtureScheduleTest, EveryDatasetIsReadOnceAnEpoch) {
  const MixtureSchedule schedule = Simple({0.3, 0.3, 0.4});
  std::map<int32_t, std::vector<int64_t>> read;
  for (int64_t step = 0; step < 200; ++step) {
    for (int64_t slot = 0; slot < 4; ++slot) {
      const MixtureSchedule::Item item = schedule.At(step, slot);
      read[item.dataset].push_back(item.instance);
    }
  }
  for (const auto& [dataset, size] : {std::pair{0, 50}, std::pair{1, 7}}) {
    for (size_t epoch = 0; (epoch + 1) * size <= read[dataset].size(); ++epoch) {
      const auto begin = read[dataset].begin() + static_cast<int64_t>(epoch) * size;
      EXPECT_EQ(std::set<int64_t>(begin, begin + size).size(), static_cast<size_t>(size));
    }
  }
  const std::set<int64_t> once(read[2].begin(), read[2].end());
  EXPECT_EQ(once.size(), read[2].size()) << "less than an epoch repeats nothing";
}

// A change of the phases after a step, such as a branch, changes nothing before it.
TEST(MixtureScheduleTest, LaterPhasesChangeNothingBefore) {
  const MixtureSchedule one = Simple({0.5, 0.25, 0.25});
  const MixtureSchedule two(
      Sources(),
      {{.begin_step = 0, .shares = {0.5, 0.25, 0.25}}, {.begin_step = 20, .shares = {0, 0, 1}}}, 3,
      {.full = 4});
  for (int64_t step = 0; step < 20; ++step) {
    for (int64_t slot = 0; slot < 4; ++slot) {
      EXPECT_EQ(one.At(step, slot).instance, two.At(step, slot).instance);
    }
  }
}

TEST(MixtureScheduleTest, OneDatasetIsReadAsWithoutAMixture) {
  const MixtureSchedule mixture({{"a", 50}}, {{.begin_step = 0, .shares = {1}}}, 3, {.full = 4});
  const InstanceSchedule plain("a", 3, 50, 4);
  for (int64_t step = 0; step < 100; ++step) {
    for (int64_t slot = 0; slot < 4; ++slot) {
      EXPECT_EQ(mixture.At(step, slot).instance, plain.Instance(step, slot));
    }
  }
}

TEST(MixtureScheduleTest, FindsTheStepsOfAnInstanceAsASearchDoes) {
  const MixtureSchedule schedule(
      Sources(),
      {{.begin_step = 0, .shares = {0.5, 0.5, 0}}, {.begin_step = 9, .shares = {0.1, 0.3, 0.6}}}, 3,
      {.full = 4});
  constexpr int64_t kSteps = 60;
  std::map<std::pair<int32_t, int64_t>, std::set<int64_t>> read;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const auto& item : schedule.Items(step, 0, 1)) {
      read[{item.dataset, item.instance}].insert(step);
    }
  }
  for (int32_t dataset = 0; dataset < 3; ++dataset) {
    for (int64_t instance = 0; instance < Sources()[dataset].num_instances; ++instance) {
      const auto steps = schedule.StepsOf(dataset, instance, kSteps);
      const auto& expected = read[{dataset, instance}];
      EXPECT_EQ(steps, (std::vector<int64_t>{expected.begin(), expected.end()}));
    }
  }
}

// Batches of 2, 2, 4, 4, 6, 6 and then 8 sequences.
TEST(MixtureScheduleTest, AGrowingBatchReadsTheSameSequencesInTheSameOrder) {
  const std::vector<MixtureSchedule::Phase> phases = {{.begin_step = 0, .shares = {0.5, 0.2, 0.3}}};
  const BatchSchedule batch = {.full = 8, .first = 2, .unit = 2, .growth_steps = 6};
  const MixtureSchedule growing(Sources(), phases, 3, batch),
      one(Sources(), phases, 3, {.full = 1});
  int64_t number = 0;
  for (int64_t step = 0; step < 40; ++step) {
    EXPECT_EQ(growing.CountsBefore(step), one.CountsBefore(number));
    const auto items = growing.Items(step, 0, 1);
    ASSERT_EQ(std::ssize(items), batch.At(step));
    for (const auto& item : items) {
      const MixtureSchedule::Item expected = one.At(number++, 0);
      ASSERT_EQ(item.dataset, expected.dataset);
      ASSERT_EQ(item.instance, expected.instance);
      const auto steps = growing.StepsOf(item.dataset, item.instance, 40);
      EXPECT_TRUE(std::ranges::binary_search(steps, step));
    }
  }
}

TEST(MixtureScheduleTest, RanksShareTheBatchInOrder) {
  const MixtureSchedule schedule = Simple({0.5, 0.2, 0.3}, 7);
  for (const int world_size : {1, 2, 3, 7}) {
    std::vector<std::pair<int32_t, int64_t>> all;
    for (int rank = 0; rank < world_size; ++rank) {
      for (const auto& item : schedule.Items(11, rank, world_size)) {
        all.emplace_back(item.dataset, item.instance);
      }
    }
    ASSERT_EQ(all.size(), 7u);
    for (int64_t slot = 0; slot < 7; ++slot) {
      EXPECT_EQ(all[slot].first, schedule.At(11, slot).dataset);
      EXPECT_EQ(all[slot].second, schedule.At(11, slot).instance);
    }
  }
}

}  // namespace mixture_schedule_test
}  // namespace braid
