#include "pipeline/store/stage_meter.h"

#include <algorithm>
#include <utility>

namespace braid {
namespace {

// Limits the number of samples in memory when reports are frequent.
constexpr double kSampleSpacing = StageMeter::kWindowSeconds / 64;

}  // namespace

StageMeter::StageMeter(StageMeterInputs inputs)
    : inputs_(std::move(inputs)), started_at_(inputs_.clock()) {
  position_.rejects = inputs_.rejects;
  position_.documents = 0;
}

v1::StageProgress StageMeter::Started() { return Describe(inputs_.clock()); }

v1::StageProgress StageMeter::At(const StagePosition& position) {
  const double now = inputs_.clock();
  const bool other_work = positioned_ && position.unit != position_.unit;
  const bool again = positioned_ && !other_work && position.done < position_.done;
  const StagePosition before = std::exchange(position_, position);
  if (position.documents < 0) {
    position_.documents = inputs_.unit == "documents" ? position.done : before.documents;
  }
  if (position.rejects < 0) position_.rejects = before.rejects;
  const auto documents = static_cast<double>(position_.documents);
  const auto done = static_cast<double>(position_.done);
  const Sample sample = {now, done, documents,
                         inputs_.unit == "bytes" ? done : documents * inputs_.bytes_per_document};
  if (again || other_work) samples_.clear();
  if (again || !positioned_) first_ = sample;
  positioned_ = true;
  Remember(sample);
  v1::StageProgress progress = Describe(now);
  AddRates(samples_.front(), samples_.back(), &progress);
  return progress;
}

void StageMeter::Remember(const Sample& sample) {
  const size_t n = samples_.size();
  if (n >= 2 && sample.time - samples_[n - 2].time < kSampleSpacing) {
    samples_.back() = sample;
  } else {
    samples_.push_back(sample);
  }
  while (samples_.size() > 2 && samples_[1].time <= sample.time - kWindowSeconds) {
    samples_.pop_front();
  }
}

v1::StageProgress StageMeter::Describe(double now) const {
  v1::StageProgress progress;
  progress.set_stage(inputs_.stage);
  progress.set_unit(position_.unit.empty() ? inputs_.unit : position_.unit);
  progress.set_seconds(now - started_at_);
  progress.set_done(position_.done);
  progress.set_total(position_.total);
  progress.set_documents(position_.documents);
  const double bytes = inputs_.unit == "bytes"
                           ? static_cast<double>(position_.done)
                           : inputs_.bytes_per_document * static_cast<double>(position_.documents);
  progress.set_bytes(static_cast<int64_t>(bytes));
  progress.set_rejects(position_.rejects);
  progress.set_chunk(position_.chunk);
  progress.set_num_chunks(position_.num_chunks);
  progress.set_resident_bytes(inputs_.resident_bytes());
  return progress;
}

void StageMeter::AddRates(const Sample& from, const Sample& to, v1::StageProgress* progress) const {
  const double seconds = to.time - from.time;
  // The minimum time does not apply to a complete stage, whose mean rate is exact.
  if (seconds <= 0 || (!progress->complete() && seconds < kMinSeconds)) return;
  progress->set_documents_per_second((to.documents - from.documents) / seconds);
  progress->set_bytes_per_second((to.bytes - from.bytes) / seconds);
  const double left = static_cast<double>(progress->total() - progress->done());
  const double rate = (to.done - from.done) / seconds;
  if (rate > 0 && left > 0) progress->set_eta_seconds(left / rate);
}

v1::StageProgress StageMeter::Completed(bool reused) {
  const double now = inputs_.clock();
  position_.unit.clear();
  position_.done = position_.total;
  if (inputs_.unit == "documents") position_.documents = position_.total;
  v1::StageProgress progress = Describe(now);
  progress.set_reused(reused);
  progress.set_complete(true);
  if (reused || !positioned_) return progress;
  const Sample end = {now, static_cast<double>(progress.done()),
                      static_cast<double>(progress.documents()),
                      static_cast<double>(progress.bytes())};
  AddRates(first_, end, &progress);
  return progress;
}

}  // namespace braid
