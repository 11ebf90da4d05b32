#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fla/core/threads.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/kda/kda.h"
#include "tools/cases/accuracy.h"
#include "tools/conformance/allocations.h"
#include "tools/conformance/conformance.h"

/// Backends that are right but for one argument, which they ignore or misread: each is caught, and the
/// argument is named.
namespace {

using fla::Argument;
using fla::ArgumentKind;
using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::Tensor;
using fla::TensorView;
using fla::Verdict;
namespace conformance = fla::conformance;

const conformance::Options kSuiteOptions{.golden_dir = FLA_GOLDEN_DIR, .allocations = fla_test::allocations};

TensorView& tensor_of(const Argument& argument, KdaArgs& args) {
  return argument.tensor(static_cast<void*>(&args));
}

/// The memory of what a mutant reads instead of its arguments.
using Memory = std::vector<Tensor>;
using Change = std::function<void(const Argument&, KdaArgs&, Memory&)>;

void ignore(const Argument& argument, KdaArgs& args, Memory&) {
  if (argument.kind == ArgumentKind::flag) {
    argument.flag(&args) = false;
  } else if (argument.kind == ArgumentKind::number) {
    argument.number(static_cast<void*>(&args)) = {};
  } else if (argument.kind == ArgumentKind::integer) {
    argument.integer(static_cast<void*>(&args)) = {};
  } else {
    tensor_of(argument, args) = {};
  }
}

/// Zeros, whatever the caller gave.
void blank(const Argument& argument, KdaArgs& args, Memory& memory) {
  TensorView& tensor = tensor_of(argument, args);
  if (tensor.defined()) tensor = memory.emplace_back(Tensor::zeros(tensor.shape(), tensor.dtype()));
}

void take_for_row_major(const Argument& argument, KdaArgs& args, Memory&) {
  TensorView& tensor = tensor_of(argument, args);
  if (tensor.defined()) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape());
}

/// bf16 as f16 and the other way around, i64 as i32.
void misread_dtype(const Argument& argument, KdaArgs& args, Memory&) {
  TensorView& tensor = tensor_of(argument, args);
  if (!tensor.defined() || tensor.dtype() == DType::f32 || tensor.dtype() == DType::i32) return;
  const DType other = tensor.dtype() == DType::bf16  ? DType::f16
                      : tensor.dtype() == DType::f16 ? DType::bf16
                                                     : DType::i32;
  tensor = TensorView(tensor.data(), other, tensor.shape(), tensor.strides());
}

/// bf16 as f32: the elements of the first half of the memory, two by two.
void misread_bf16_as_f32(const Argument& argument, KdaArgs& args, Memory& memory) {
  TensorView& tensor = tensor_of(argument, args);
  if (!tensor.defined() || tensor.dtype() != DType::bf16 || !tensor.is_contiguous()) return;
  const Tensor read = memory.emplace_back(Tensor::zeros(tensor.shape(), DType::f32));
  for (std::int64_t i = 0; i < tensor.numel() / 2; ++i) read.as<float>()[i] = tensor.as<float>()[i];
  tensor = read;
}

void halve(const Argument& argument, KdaArgs& args, Memory&) {
  if (!argument.given(&args)) return;
  if (argument.kind == ArgumentKind::number) {
    *argument.number(static_cast<void*>(&args)) /= 2;
  } else {
    *argument.integer(static_cast<void*>(&args)) /= 2;
  }
}

/// Every sequence but the last is empty.
void all_tokens_to_the_last(const Argument& argument, KdaArgs& args, Memory& memory) {
  TensorView& starts = tensor_of(argument, args);
  if (!starts.defined()) return;
  const Tensor read = memory.emplace_back(Tensor::zeros(starts.shape(), starts.dtype()));
  fla::cases::store(read, read.size(0) - 1, static_cast<double>(args.q.size(1)));
  starts = read;
}

void slot_of_its_own(const Argument& argument, KdaArgs& args, Memory& memory) {
  TensorView& slots = tensor_of(argument, args);
  if (!slots.defined()) return;
  const Tensor read = memory.emplace_back(Tensor::zeros(slots.shape(), slots.dtype()));
  for (std::int64_t n = 0; n < read.size(0); ++n) fla::cases::store(read, n, static_cast<double>(n));
  slots = read;
}

/// safe_gate promises something about lower_bound and changes no result: a kernel that takes another gate
/// for it misreads it.
void gate_without_bound(const Argument& argument, KdaArgs& args, Memory&) {
  if (argument.flag(&args) && args.A_log.defined()) args.lower_bound = {};
}

void keep_without_rate(const Argument& argument, KdaArgs& args, Memory& memory) {
  if (args.lower_bound) ignore(argument, args, memory);
}

void bound_only_with_rate(const Argument& argument, KdaArgs& args, Memory& memory) {
  if (args.A_log.defined()) ignore(argument, args, memory);
}

struct Mutation {
  std::string name;
  const Argument* argument;
  Change change;
};

std::vector<Mutation> mutations() {
  std::vector<Mutation> all;
  for (const Argument& argument : KdaArgs::arguments()) {
    const auto add = [&](const char* how, const Change& change) {
      all.push_back({std::string(argument.name) + "_" + how, &argument, change});
    };
    if (argument.name == "safe_gate") {
      add("TakenForAnotherGate", gate_without_bound);
    } else if (argument.name == "lower_bound") {
      add("Ignored", bound_only_with_rate);
    } else if (argument.name == "A_log") {
      add("Ignored", keep_without_rate);
    } else if (argument.name == "cu_seqlens") {
      add("Ignored", all_tokens_to_the_last);
    } else if (argument.name == "state_indices") {
      add("Ignored", slot_of_its_own);
    } else if (argument.need == fla::Need::required) {
      add("Ignored", blank);
    } else {
      add("Ignored", ignore);
    }
    if (argument.kind == ArgumentKind::number || argument.kind == ArgumentKind::integer) add("Halved", halve);
    if (!argument.is_tensor()) continue;
    add("TakenForRowMajor", take_for_row_major);
    if (argument.kind != ArgumentKind::output) add("OfAnotherDtype", misread_dtype);
    if (argument.kind == ArgumentKind::tensor) add("Bf16TakenForF32", misread_bf16_as_f32);
  }
  return all;
}

/// The original kernel behind a verifier that takes everything, or K = V = 64 in f32 alone, with one argument
/// changed before it runs.
class Mutant final : public fla::KdaBackend {
 public:
  Mutant(bool narrow, const Mutation* mutation) : narrow_(narrow), mutation_(mutation) {}

  fla::BackendInfo info() const override { return {.name = "mutant", .batch_invariant = true}; }
  Verdict chunk_kda_verifier(const KdaArgs& args) const override { return verify(args); }
  Verdict fused_recurrent_kda_verifier(const KdaArgs& args) const override { return verify(args); }
  KdaResult chunk_kda(const KdaArgs& args) override { return run(args, fla::original::chunk_kda); }
  KdaResult fused_recurrent_kda(const KdaArgs& args) override {
    return run(args, fla::original::fused_recurrent_kda);
  }

 private:
  Verdict verify(const KdaArgs& args) const {
    if (!narrow_) return fla::accept();
    if (args.q.size(3) != 64) return fla::refuse("requires K=64, got {}", args.q.size(3));
    if (args.v.size(3) != 64) return fla::refuse("requires V=64, got {}", args.v.size(3));
    for (const TensorView* tensor : {&args.q, &args.k, &args.v}) {
      if (tensor->dtype() != DType::f32) return fla::refuse("requires f32, got {}", tensor->dtype());
    }
    return fla::accept();
  }

  KdaResult run(const KdaArgs& args, KdaResult (*kernel)(const KdaArgs&)) const {
    if (mutation_ == nullptr) return kernel(args);
    KdaArgs changed = args;
    Memory memory;
    mutation_->change(*mutation_->argument, changed, memory);
    return kernel(changed);
  }

  bool narrow_;
  const Mutation* mutation_;
};

struct Mutated {
  bool narrow;
  Mutation mutation;
};

/// The narrow one in every way, the wide one in one way an argument.
std::vector<Mutated> mutated_backends() {
  std::vector<Mutated> all;
  const Argument* last = nullptr;
  for (const Mutation& mutation : mutations()) {
    if (mutation.argument != last) all.push_back({false, mutation});
    last = mutation.argument;
    // q, k and v in 16 bits are refused by the narrow one.
    const std::string_view name = mutation.argument->name;
    const bool refused = (name == "q" || name == "k" || name == "v") &&
                         (mutation.name.ends_with("Dtype") || mutation.name.ends_with("F32"));
    if (!refused) all.push_back({true, mutation});
  }
  return all;
}

class ConformanceOfMutant : public testing::TestWithParam<Mutated> {};

TEST_P(ConformanceOfMutant, FailsAndNamesTheArgument) {
  const auto& [narrow, mutation] = GetParam();
  fla::set_num_threads(1);  // so many small calls are done sooner by one
  const auto backend = fla::register_backend("kda", std::make_unique<Mutant>(narrow, &mutation));
  const std::string name(mutation.argument->name);
  conformance::Options options = kSuiteOptions;
  options.argument = name;
  conformance::Report report = conformance::run_check("kda", "mutant", "arguments", options);
  // Some values matter beside one of another argument alone.
  if (report.ok()) report = conformance::run_check("kda", "mutant", "arguments", kSuiteOptions);
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.failures, testing::Contains(testing::AnyOf(
                                   testing::HasSubstr("_kda: " + name + ": "),
                                   testing::ContainsRegex("ignores ([a-zA-Z_]+, )*" + name + "[,;]"))))
      << report.text();
}

INSTANTIATE_TEST_SUITE_P(Mutants, ConformanceOfMutant, testing::ValuesIn(mutated_backends()),
                         [](const auto& test) {
                           return (test.param.narrow ? "narrow_" : "wide_") + test.param.mutation.name;
                         });

class ConformanceOfNoMutant : public testing::TestWithParam<bool> {};

TEST_P(ConformanceOfNoMutant, Passes) {
  const auto backend = fla::register_backend("kda", std::make_unique<Mutant>(GetParam(), nullptr));
  for (const conformance::Report& report : conformance::run_conformance("kda", "mutant", kSuiteOptions)) {
    EXPECT_TRUE(report.ok()) << report.text();
    EXPECT_EQ(report.skipped, "") << report.check;
    if (report.check == "gradients") {
      EXPECT_EQ(report.refusals, std::vector<std::string>{"has no chunk_kda_backward"});
      continue;
    }
    if (report.check == "rings") {
      EXPECT_EQ(report.refusals, std::vector<std::string>{"has no replay_kda"});
      continue;
    }
    if (report.check == "summaries") {
      EXPECT_EQ(report.refusals, std::vector<std::string>{"has no kda_summary"});
      continue;
    }
    EXPECT_GT(report.calls, 0) << report.check;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceOfNoMutant, testing::Bool(),
                         [](const auto& test) { return test.param ? "narrow" : "wide"; });

}  // namespace
