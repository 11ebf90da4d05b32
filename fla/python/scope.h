#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "fla/dispatch/settings/policy.h"

/// `with fla_cpp.policy(...)`: the policies of the calling context, kept in a contextvars.ContextVar. They
/// are applied on the thread of each call while it runs, so that tasks and generators that take turns on
/// a thread each keep their own.
namespace fla::python {

class Scope {
 public:
  /// Reads the context. Needs the GIL.
  Scope();

  /// Applies them, from the outermost to the innermost. Needs no GIL; throws ConfigError.
  class Policies {
   public:
    explicit Policies(const Scope& scope) {
      for (const Policy* policy : scope.policies_) stack_.push(*policy);
    }

   private:
    /// They go in reverse order, also when one of them throws while it is made.
    class Stack {
     public:
      Stack() = default;
      Stack(const Stack&) = delete;
      Stack& operator=(const Stack&) = delete;
      ~Stack() {
        while (!scoped_.empty()) scoped_.pop_back();
      }
      void push(const Policy& policy) { scoped_.push_back(std::make_unique<ScopedPolicy>(policy)); }

     private:
      std::vector<std::unique_ptr<ScopedPolicy>> scoped_;
    };
    Stack stack_;
  };

 private:
  pybind11::object context_;  // keeps them alive
  std::vector<const Policy*> policies_;
};

/// fla_cpp.Policy, and the ContextVar as `scope`: None, or a tuple of policies.
void add_scope(pybind11::module_& module);

}  // namespace fla::python
