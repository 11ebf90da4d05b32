#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "fla/dispatch/plugins/plugin.h"
#include "fla/ops/kda/kda.h"
#include "tests/plugins/events.h"

/// A plugin whose code calls fla, or starts threads or processes that do and waits for them, while it is
/// being loaded or closed. When, is the name of the file that it was copied to.
namespace {

std::string file_of_this() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&file_of_this), &info);
  return info.dli_fname;
}

void call() {
  const fla::Tensor x = fla::Tensor::zeros({1, 2, 1, 8}, fla::DType::f32),
                    beta = fla::Tensor::zeros({1, 2, 1}, fla::DType::f32);
  const fla::KdaArgs args{.q = x, .k = x, .v = x, .g = x, .beta = beta};
  fla_test::note(fla::chunk_kda(args).o.numel() == 16 ? "called" : "wrong");
}

void in_a_thread() { std::thread(call).join(); }

void in_a_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    call();
    std::quick_exit(7);  // ThreadSanitizer takes _exit inside dlopen for a fault of its user's
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  // Without std::to_string, whose table would keep the library from being closed.
  fla_test::note(WIFEXITED(status) && WEXITSTATUS(status) == 7 ? "child ended" : "child was lost");
}

/// Puts a copy in the place of the library's own file.
void replace_file() {
  std::filesystem::copy_file(file_of_this(), file_of_this() + ".next");
  std::filesystem::rename(file_of_this() + ".next", file_of_this());
}

const std::map<std::string, std::function<void()>> kInConstructor{{"constructor", call},
                                                                  {"constructor_thread", in_a_thread},
                                                                  {"constructor_child", in_a_child},
                                                                  {"replaced", replace_file}},
    kInAvailable{{"available", call}, {"available_thread", in_a_thread}, {"available_child", in_a_child}},
    kInDestructor{{"destructor", call}, {"destructor_thread", in_a_thread}};

struct Life {
  std::string name = std::filesystem::path(file_of_this()).stem();

  void act(const std::map<std::string, std::function<void()>>& acts) const {
    if (const auto found = acts.find(name); found != acts.end()) found->second();
  }
  Life() { act(kInConstructor); }
  ~Life() { act(kInDestructor); }
};
const Life life;

class Calling final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override {
    return {.name = "calling", .package = "", .env_var = "FLA_CALLING", .priority = 1, .doc = "K = 64"};
  }
  fla::Availability is_available() const override {
    life.act(kInAvailable);
    return fla::Availability::yes();
  }
  fla::Verdict chunk_kda_verifier(const fla::KdaArgs& args) const override {
    if (args.q.size(3) != 64) return fla::refuse("requires K=64, got {}", args.q.size(3));
    return fla::accept();
  }
  fla::KdaResult chunk_kda(const fla::KdaArgs& args) override { return fla::original::chunk_kda(args); }
};

}  // namespace

FLA_PLUGIN(calling) {
  if (kInDestructor.contains(life.name)) throw std::runtime_error("to be closed again");
  FLA_REGISTER_BACKEND(kda, calling, Calling);
}
