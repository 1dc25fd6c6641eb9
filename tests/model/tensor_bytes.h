// Counts the bytes that the tensor library allocates.
#ifndef BRAID_TESTS_MODEL_TENSOR_BYTES_H_
#define BRAID_TESTS_MODEL_TENSOR_BYTES_H_

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace braid {

// The type of the totals, which differs between versions of the library.
template <class T>
T TotalOf(void (c10::MemoryReportingInfoBase::*)(void*, int64_t, T, T, c10::Device));

// Counts the bytes of live tensors and their maximum.
class TensorBytes final : public c10::MemoryReportingInfoBase {
 public:
  using Total = decltype(TotalOf(&c10::MemoryReportingInfoBase::reportMemoryUsage));

  void reportMemoryUsage(void*, int64_t bytes, Total, Total, c10::Device) override {
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }
  int64_t now() const { return now_; }

 private:
  int64_t now_ = 0, peak_ = 0;
};

// Returns the maximum of the bytes of tensors that `work` holds at once, allocated in this thread.
template <class Work>
int64_t PeakTensorBytes(const Work& work) {
  const auto bytes = std::make_shared<TensorBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
  work();
  return bytes->peak();
}

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_TENSOR_BYTES_H_
