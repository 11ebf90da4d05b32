#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <string_view>
#include <type_traits>

#include "fla/core/device.h"
#include "fla/core/tensor.h"
#include "fla/core/workspace.h"

/// Functions for callers that have names and argument tables alone, no types: the C ABI and Python.
namespace fla::dispatch {

/// An argument struct, its type erased.
struct ErasedArgs {
  std::size_t size;
  void (*construct)(void* memory);  ///< Args{}, aligned for std::max_align_t; needs no destruction
  void (*set_stream)(void* args, Stream stream);
  void (*set_workspace)(void* args, Workspace workspace);  ///< does nothing where the struct has none
  std::size_t (*workspace_size)(const void* args);         ///< 0 likewise
  /// The function that the op's front door picks; null: these arguments have no front door.
  std::string_view (*front_door)(const void* args);
};

template <class Args>
concept ErasableArgs = requires(Args& args) {
  Args::arguments();
  args.stream = Stream{};
}
&&std::is_trivially_destructible_v<Args> && alignof(Args) <= alignof(std::max_align_t);

template <ErasableArgs Args>
const ErasedArgs& erased_args() {
  static constexpr ErasedArgs kErased{
      .size = sizeof(Args),
      .construct = [](void* memory) { new (memory) Args(); },
      .set_stream = [](void* args, Stream stream) { static_cast<Args*>(args)->stream = stream; },
      .set_workspace =
          [](void* args, Workspace workspace) {
            if constexpr (requires(Args & any) { any.workspace; })
              static_cast<Args*>(args)->workspace = workspace;
          },
      .workspace_size = [](const void* args) -> std::size_t {
        if constexpr (requires(const Args& any) { workspace_size(any); })
          return workspace_size(*static_cast<const Args*>(args));
        return 0;
      },
      .front_door = []() -> std::string_view (*)(const void*) {
        if constexpr (requires(const Args& any) { front_door(any); })
          return [](const void* args) { return front_door(*static_cast<const Args*>(args)); };
        return nullptr;
      }(),
  };
  return kErased;
}

/// Told of each tensor of a result, under the name that the table gives the memory for it. It may take the
/// tensor away.
using ResultVisitor = std::function<void(std::string_view name, Tensor& tensor)>;

/// A result that is tensors: visit_results(result, visitor) is found beside its type.
template <class Result>
concept VisitableResult = requires(Result& result, const ResultVisitor& visitor) {
  visit_results(result, visitor);
};

}  // namespace fla::dispatch
