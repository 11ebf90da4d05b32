#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/plugins/plugin.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/config/stress.h"
#include "tests/plugins/plugin_folder.h"

namespace {

using fla_test::PluginFolder;

struct Call {
  fla::Tensor x = fla::Tensor::zeros({1, 2, 1, 64}, fla::DType::f32),
              beta = fla::Tensor::zeros({1, 2, 1}, fla::DType::f32);
  fla::KdaArgs args{.q = x, .k = x, .v = x, .g = x, .beta = beta};
};

/// Threads that do the same until the object goes.
class Busy {
 public:
  Busy(int threads, const std::function<void()>& work) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, work] {
        while (!stop_) work();
      });
    }
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST(PluginStress, CallsAreRightWhilePluginsAreLoadedAndRefused) {
  const PluginFolder folder;
  const Call first;
  (void)fla::chunk_kda(first.args);  // from now on plugins are loaded at once
  std::atomic<int> calls{0}, wrong{0};
  {
    const Busy callers(3, [&] {
      const Call call;
      if (fla::chunk_kda(call.args).o.numel() != 128) ++wrong;
      ++calls;
    });
    const Busy readers(1, [&] {
      for (const fla::PluginStatus& plugin : fla::plugins()) wrong += plugin.path.empty() ? 1 : 0;
      const Call call;
      (void)fla::explain("kda", "chunk_kda", call.args);
    });
    for (int i = 0; i < 20; ++i) {
      const std::string name = "stress_" + std::to_string(i);
      EXPECT_EQ(fla::load_plugin(folder.copy("defective", name)).state, "loaded");
      const PluginFolder other;
      EXPECT_EQ(fla::load_plugin(other.copy("defective", i % 2 == 0 ? "throws" : "size")).state, "refused");
      fla::reload_environment();
    }
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(calls.load(), 0);
}

TEST(PluginStress, EveryCallRunsUnderExactlyOneConfigFileWhileItIsRewrittenAndPluginsAreLoaded) {
  const PluginFolder folder;
  const Call first;
  (void)fla::chunk_kda(first.args);  // from now on plugins are loaded at once
  int loaded = 0;
  const fla_test::StressResult result =
      fla_test::run_stress({.threads = 8, .rewrites = 1000, .meanwhile = [&](int rewrite) {
                              if (rewrite % 50 != 0) return;
                              const std::string name = "beside_" + std::to_string(rewrite);
                              loaded += fla::load_plugin(folder.copy("defective", name)).state == "loaded";
                            }});
  EXPECT_EQ(loaded, 20);
  EXPECT_EQ(result.torn, 0u) << "of " << result.calls;
  EXPECT_GT(result.calls, 0u);
  EXPECT_EQ(result.refused, 333u);
  EXPECT_EQ(result.accepted, 667u);
}

TEST(PluginStress, ManyFirstCallsAtOnceAllWaitForThePlugin) {
  const PluginFolder folder;
  const fla_test::ReloadedEnvironment environment(
      {{"FLA_PLUGIN_PATH", folder.copy("acme")}, {"FLA_BACKEND_REQUIRE", "kda=acme"}});
  std::atomic<int> ready{0}, by_acme{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const Call call;
      ++ready;
      while (ready < 8) std::this_thread::yield();
      (void)fla::chunk_kda(call.args);  // throws unless acme takes it
      ++by_acme;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(by_acme.load(), 8);
}

}  // namespace
