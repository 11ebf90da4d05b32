#include "tests/emulation/global_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace fla::emulation {
namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::byte kPadding{0xa5};

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

Buffer::Buffer(std::string name, std::size_t bytes)
    : name_(std::move(name)),
      bytes_(bytes),
      mapped_(rounded_up(bytes, page()) + 2 * page()),
      shadow_(bytes, kAlignment, true) {
  void* const map = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  map_ = static_cast<std::byte*>(map);
  std::byte* const inside = map_ + page();
  const std::size_t usable = mapped_ - 2 * page();
  if (usable > 0 && mprotect(inside, usable, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  data_ = inside + usable - rounded_up(bytes, kAlignment);
  std::fill(inside, inside + usable, kPadding);
  std::fill(data_, data_ + bytes, std::byte{0xff});
}

Buffer::~Buffer() { munmap(map_, mapped_); }

bool Buffer::is_near(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  return at >= map_ && at < map_ + mapped_;
}

bool Buffer::is_overrun() const {
  const auto is_touched = [](std::byte b) { return b != kPadding; };
  return std::any_of(map_ + page(), data_, is_touched) ||
         std::any_of(data_ + bytes_, map_ + mapped_ - page(), is_touched);
}

std::byte* GlobalMemory::add(std::string name, std::size_t bytes) {
  buffers_.push_back(std::make_unique<Buffer>(std::move(name), bytes));
  return buffers_.back()->data();
}

Buffer* GlobalMemory::holding(const void* address, std::size_t bytes) const {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const auto& buffer : buffers_)
    if (at >= buffer->data() && at + bytes <= buffer->data() + buffer->bytes()) return buffer.get();
  return nullptr;
}

Buffer* GlobalMemory::near(const void* address) const {
  for (const auto& buffer : buffers_)
    if (buffer->is_near(address)) return buffer.get();
  return nullptr;
}

}  // namespace fla::emulation
