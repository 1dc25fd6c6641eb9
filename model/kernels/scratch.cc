#include "model/kernels/scratch.h"

#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "base/huge_pages.h"

namespace braid {
namespace {

struct Free {
  void operator()(float* block) const { std::free(block); }
};

struct Block {
  std::unique_ptr<float, Free> data;
  int64_t capacity = 0;
  bool in_use = false;
};

Block& ThreadBlock() {
  static thread_local Block block;
  return block;
}

int64_t RoundUp(int64_t count) {
  return (count + Scratch::kPadding - 1) / Scratch::kPadding * Scratch::kPadding;
}

}  // namespace

Scratch::Scratch(int64_t capacity) {
  Block& block = ThreadBlock();
  BRAID_CHECK(!block.in_use) << "scratch memory has one user at a time";
  if (block.capacity < capacity) {
    // Freed first: the contents are not needed, and both blocks together would raise the peak.
    block.data.reset();
    block.capacity = 0;
    // Huge pages, because the expert kernels walk through many arrays at once, which would often
    // miss the translation lookaside buffer with small pages.
    block.data.reset(static_cast<float*>(AllocateHuge(capacity * sizeof(float))));
    block.capacity = capacity;
  }
  block.in_use = true;
  next_ = block.data.get();
  end_ = next_ + block.capacity;
}

Scratch::~Scratch() { ThreadBlock().in_use = false; }

int64_t Scratch::HeldByThread() { return ThreadBlock().capacity; }

float* Scratch::Take(int64_t count) {
  float* piece = next_;
  next_ += RoundUp(count);
  BRAID_CHECK(next_ <= end_) << "scratch of " << end_ - piece << " floats asked for " << count;
  return piece;
}

}  // namespace braid
