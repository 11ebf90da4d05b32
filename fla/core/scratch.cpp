#include "fla/core/scratch.h"

#include <memory>
#include <new>

namespace fla {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(float* memory) const { ::operator delete(memory, kAlignment); }
};

}  // namespace

float* thread_scratch(std::size_t count) {
  thread_local std::unique_ptr<float, Free> memory;
  thread_local std::size_t capacity = 0;
  if (count > capacity) {
    memory =
        std::unique_ptr<float, Free>(static_cast<float*>(::operator new(count * sizeof(float), kAlignment)));
    capacity = count;
  }
  return memory.get();  // NOLINT(clang-analyzer-cplusplus.NewDelete): it lives as long as the thread
}

}  // namespace fla
