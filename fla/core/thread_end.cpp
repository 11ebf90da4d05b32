#include "fla/core/thread_end.h"

#include <pthread.h>

#include <array>
#include <cstddef>

namespace fla {
namespace {

constinit thread_local std::array<void (*)(), 8> ends{};
constinit thread_local std::size_t count = 0;

void run_ends(void*) {
  while (count > 0) ends[--count]();
}

// A key and not a thread_local object: the destructors of keys run after those of all such objects, and again
// when a later one sets the key once more.
pthread_key_t key;

bool has_key() {
  static const bool made = pthread_key_create(&key, run_ends) == 0;
  return made;
}
const bool at_load = has_key();  // a fork meanwhile would leave the child's half made

}  // namespace

void at_thread_end(void (*end)()) {
  // Without a key, or without room, what the thread has stays until the process ends.
  if (!has_key() || count == ends.size() || pthread_setspecific(key, &key) != 0) return;
  ends[count++] = end;
}

}  // namespace fla
