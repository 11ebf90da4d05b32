#include "fla/dispatch/catalog/collecting.h"

#include <atomic>

#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/catalog/lock.h"

namespace fla::dispatch {
namespace {

constinit thread_local Collected* collected = nullptr;

}  // namespace

Collecting::Collecting(Collected& into) { collected = &into; }
Collecting::~Collecting() { collected = nullptr; }

Registration::Registration(const Recipe& recipe) {
  if (collected != nullptr) {
    collected->recipes.push_back(recipe);
  } else {
    Lock lock;
    catalog(lock).recipes.push_back({recipe, ""});
  }
}

FunctionBase::FunctionBase(const Description& description) : description_(description) {
  static constinit std::atomic<std::uint32_t> count{0};
  index_ = count.fetch_add(1, std::memory_order_relaxed);
  if (collected != nullptr) {
    collected->functions.push_back(this);
  } else {
    Lock lock;
    catalog(lock).add(*this);
  }
}

}  // namespace fla::dispatch
