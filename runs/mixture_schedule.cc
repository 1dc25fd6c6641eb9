#include "runs/mixture_schedule.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace braid {
namespace {

constexpr int kPartBits = 48;
constexpr uint64_t kWholePart = uint64_t{1} << kPartBits;

// Returns floor(p n + 1/2) for p = part / 2^48.
int64_t RoundedPart(int64_t n, uint64_t part) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(static_cast<uint64_t>(n)) * part;
  return static_cast<int64_t>((product + (kWholePart >> 1)) >> kPartBits);
}

}  // namespace

ShareSplitter::ShareSplitter(const std::vector<double>& shares) : parts_(shares.size()) {
  double rest = 0;
  for (size_t d = shares.size(); d-- > 0;) {
    BRAID_CHECK(std::isfinite(shares[d]) && shares[d] >= 0) << shares[d];
    const bool last = rest == 0;
    rest += shares[d];
    parts_[d] = last ? kWholePart
                     : static_cast<uint64_t>(
                           std::llround(shares[d] / rest * static_cast<double>(kWholePart)));
  }
  BRAID_CHECK(rest > 0) << "no dataset has a share";
}

std::vector<int64_t> ShareSplitter::CountsBefore(int64_t n) const {
  std::vector<int64_t> counts;
  for (const uint64_t part : parts_) {
    counts.push_back(RoundedPart(n, part));
    n -= counts.back();
  }
  return counts;
}

ShareSplitter::Place ShareSplitter::At(int64_t slot) const {
  for (size_t d = 0; d < parts_.size(); ++d) {
    const int64_t before = RoundedPart(slot, parts_[d]);
    if (RoundedPart(slot + 1, parts_[d]) > before) return {static_cast<int32_t>(d), before};
    slot -= before;
  }
  BRAID_CHECK(false) << "the last part is the whole";
  return {};
}

MixtureSchedule::MixtureSchedule(const std::vector<Source>& sources,
                                 const std::vector<Phase>& phases, uint64_t seed,
                                 const BatchSchedule& batch)
    : batch_(batch) {
  BRAID_CHECK(!sources.empty() && !phases.empty() && phases[0].begin_step == 0);
  for (const Source& source : sources)
    orders_.emplace_back(source.key, seed, source.num_instances, 1);
  for (const Phase& phase : phases) {
    BRAID_CHECK(phase.shares.size() == sources.size()) << phase.shares.size();
    std::vector<int64_t> counts(sources.size());
    if (!phases_.empty()) {
      BRAID_CHECK(phase.begin_step > phases_.back().begin_step) << phase.begin_step;
      counts = CountsBefore(phase.begin_step);
    }
    phases_.push_back({phase.begin_step, ShareSplitter(phase.shares), std::move(counts)});
  }
}

const MixtureSchedule::PhaseState& MixtureSchedule::PhaseOf(int64_t step) const {
  size_t phase = phases_.size() - 1;
  while (phase > 0 && phases_[phase].begin_step > step) --phase;
  return phases_[phase];
}

MixtureSchedule::Item MixtureSchedule::At(int64_t step, int64_t slot) const {
  const PhaseState& phase = PhaseOf(step);
  const ShareSplitter::Place place =
      phase.splitter.At(batch_.Before(step) - batch_.Before(phase.begin_step) + slot);
  const int64_t number = phase.counts[place.dataset] + place.number;
  return {place.dataset, orders_[place.dataset].Instance(number, 0)};
}

std::vector<MixtureSchedule::Item> MixtureSchedule::Items(int64_t step, int rank,
                                                          int world_size) const {
  std::vector<Item> items;
  const SlotRange slots = RankSlots(batch_.At(step), rank, world_size);
  for (int64_t slot = slots.begin; slot < slots.end; ++slot) items.push_back(At(step, slot));
  return items;
}

std::vector<int64_t> MixtureSchedule::StepsOf(int32_t dataset, int64_t instance,
                                              int64_t num_steps) const {
  std::vector<int64_t> steps;
  const int64_t total = CountsBefore(num_steps)[dataset];
  // In batches of one instance, the steps of a dataset's own order number its readings.
  for (const int64_t number : orders_[dataset].StepsOf(instance, total)) {
    int64_t low = 0,
            high = num_steps;  // `number` readings or fewer before `low`, more before `high`
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (CountsBefore(middle)[dataset] > number ? high : low) = middle;
    }
    if (steps.empty() || steps.back() != low) steps.push_back(low);
  }
  return steps;
}

std::vector<int64_t> MixtureSchedule::CountsBefore(int64_t step) const {
  // A step at which a phase begins is the end of the phase before it.
  const PhaseState& phase = PhaseOf(step);
  std::vector<int64_t> counts =
      phase.splitter.CountsBefore(batch_.Before(step) - batch_.Before(phase.begin_step));
  for (size_t d = 0; d < counts.size(); ++d) counts[d] += phase.counts[d];
  return counts;
}

}  // namespace braid
