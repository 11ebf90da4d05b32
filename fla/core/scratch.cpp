#include "fla/core/scratch.h"

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "fla/core/thread_end.h"

namespace fla {
namespace {

constexpr std::align_val_t kScratchAlignment{64};

class Buffer {
 public:
  float* room_for(std::size_t count) {
    if (count > capacity_) {
      memory_.reset();  // before the new one: a thread never holds both
      capacity_ = 0;
      memory_.reset(static_cast<float*>(::operator new(count * sizeof(float), kScratchAlignment)));
      capacity_ = count;
    }
    return memory_.get();  // NOLINT(clang-analyzer-cplusplus.NewDelete): it lives as long as the thread
  }

 private:
  struct Free {
    void operator()(float* memory) const { ::operator delete(memory, kScratchAlignment); }
  };
  std::unique_ptr<float, Free> memory_;
  std::size_t capacity_ = 0;
};

/// What a thread has: one buffer for thread_scratch, and one for every depth to which its kernels hold
/// scratch at once.
struct Scratch {
  Buffer own;
  std::vector<Buffer> held;
  std::size_t depth = 0;
};
constinit thread_local Scratch* scratch = nullptr;  // no object with a destructor: calls may come after that

Scratch& scratch_of_thread() {
  if (scratch == nullptr) {
    scratch = new Scratch;
    at_thread_end([] { delete std::exchange(scratch, nullptr); });
  }
  return *scratch;
}

}  // namespace

float* thread_scratch(std::size_t count) { return scratch_of_thread().own.room_for(count); }

HeldScratch::HeldScratch(std::size_t count) {
  Scratch& mine = scratch_of_thread();
  if (mine.depth == mine.held.size()) mine.held.emplace_back();
  data_ = mine.held[mine.depth].room_for(count);
  ++mine.depth;
}

HeldScratch::~HeldScratch() { --scratch_of_thread().depth; }

}  // namespace fla
