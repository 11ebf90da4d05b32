#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/device.h"
#include "tools/cases/op.h"
#include "tools/cases/safetensors.h"

/// A case is a .safetensors file with a call in it: tensors under the arguments' names, options as strings in
/// __metadata__ (1 and 0 for flags), the op's name under `op` there, and what the call should return under
/// expect.*.
namespace fla::cases {

struct Case {
  std::string file;
  const Op* op = nullptr;
  std::shared_ptr<void> args;                   ///< the op's argument struct, over `tensors`
  std::vector<NamedTensor> tensors;             ///< the memory of the arguments
  std::vector<NamedTensor> pools;               ///< the memory of outputs of which a call writes single slots
  std::vector<NamedTensor> expected;            ///< results of the op, without "expect."
  std::vector<std::string> of_other_direction;  ///< expectations of what the other direction returns
  std::vector<std::string> not_compared;        ///< other expectations
  std::vector<std::string> warnings;            ///< tensors and options that mean nothing to the op

  template <class Args>
  const Args& args_as() const {
    return *static_cast<const Args*>(args.get());
  }
};

/// Which of its op's functions a case is read for: those that go forward, or the one that goes backward.
enum class Direction : std::uint8_t { forward, backward };

/// Reads a case through the op's argument table. `op` empty: the file must name it; otherwise the file may,
/// and must agree. A result that the file expects is asked for (output_final_state). What only functions of
/// the other direction take or return is passed over. Throws FileError. The arguments are complete but not
/// validated: options may still be set.
Case read_case(const std::string& file, std::string_view op = "", Device device = {},
               Direction direction = Direction::forward);

/// Gives a call that names slots and asks for a final state the pool to write it to, since the caller has to:
/// one like the pool that it reads, or zeros in the shape of what the file expects. Takes it back from a call
/// that asks no more. Reading does so, and it is to be done again once options were set.
void give_pools(Case& call);

/// Runs a function of the case's op. The pools that were given are first made as they were, so that a run
/// shows what it wrote itself.
std::vector<NamedTensor> run(const Case& call, std::string_view function);

/// Throws FileError, with the file's name before the library's own words, unless the op could run this call.
void validate(const Case& call);

/// Sets a number, an integer or a flag from text. Throws InvalidArgument for a name that the table does not
/// have as an option, or a value that is none.
void set_option(ArgumentTable table, void* args, std::string_view name, std::string_view value);

}  // namespace fla::cases
