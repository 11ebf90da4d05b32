#pragma once

namespace fla {

/// Held while the calling thread calls OpenMP's runtime; false where it must not. LLVM's runtime (clang
/// builds) crashes on a thread, and in a process, that it has left, and when it leaves a process while a
/// region runs. So no thread uses it after at_thread_end, and no process after the destructors of the
/// library's static objects, which wait for the regions that run. GCC's may be called at any time.
class OpenMpUse {
 public:
#ifdef __clang__
  OpenMpUse();
  ~OpenMpUse();
#else
  OpenMpUse() = default;
#endif
  OpenMpUse(const OpenMpUse&) = delete;
  OpenMpUse& operator=(const OpenMpUse&) = delete;

  explicit operator bool() const { return allowed_; }

 private:
  bool allowed_ = true;
};

}  // namespace fla
