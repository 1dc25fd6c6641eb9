#include "model/kernels/scratch.h"

#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "base/check.h"

namespace braid {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

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

void* AllocateHuge(size_t bytes) {
  const size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, size);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, size, MADV_HUGEPAGE);  // best effort
  return memory;
}

Scratch::Scratch(int64_t capacity) {
  Block& block = ThreadBlock();
  BRAID_CHECK(!block.in_use) << "scratch memory has one user at a time";
  block.in_use = true;
  if (block.capacity < capacity) {
    block.data.reset();
    block.data.reset(static_cast<float*>(AllocateHuge(capacity * sizeof(float))));
    block.capacity = capacity;
  }
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
