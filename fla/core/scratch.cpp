#include "fla/core/scratch.h"

#include <memory>
#include <new>
#include <vector>

namespace fla {
namespace {

constexpr std::align_val_t kAlignment{64};

class Buffer {
 public:
  float* room_for(std::size_t count) {
    if (count > capacity_) {
      memory_.reset();  // before the new one: a thread never holds both
      capacity_ = 0;
      memory_.reset(static_cast<float*>(::operator new(count * sizeof(float), kAlignment)));
      capacity_ = count;
    }
    return memory_.get();  // NOLINT(clang-analyzer-cplusplus.NewDelete): it lives as long as the thread
  }

 private:
  struct Free {
    void operator()(float* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<float, Free> memory_;
  std::size_t capacity_ = 0;
};

/// One buffer for every depth to which kernels of one thread hold scratch at once.
struct Held {
  std::vector<Buffer> buffers;
  std::size_t depth = 0;
};

Held& held() {
  thread_local Held held;
  return held;
}

}  // namespace

float* thread_scratch(std::size_t count) {
  thread_local Buffer buffer;
  return buffer.room_for(count);
}

HeldScratch::HeldScratch(std::size_t count) {
  Held& mine = held();
  if (mine.depth == mine.buffers.size()) mine.buffers.emplace_back();
  data_ = mine.buffers[mine.depth].room_for(count);
  ++mine.depth;
}

HeldScratch::~HeldScratch() { --held().depth; }

}  // namespace fla
