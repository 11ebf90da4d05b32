#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/tensor.h"
#include "tools/cases/file_error.h"

/// The .safetensors format: eight bytes with the length of a JSON header, little-endian; the header, which
/// gives every tensor's dtype, shape and place; the tensors' bytes, without holes.
namespace fla::cases {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// An open file whose header has been checked against all of the format's rules. Tensors are read when asked
/// for.
class Safetensors {
 public:
  struct Entry {
    std::string name;
    std::string dtype;          ///< as the file spells it
    std::optional<DType> type;  ///< nothing for a dtype that fla does not have
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  ///< bytes, counted from the end of the header
  };

  /// Throws FileError for a file that cannot be read or breaks a rule.
  static Safetensors open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }  ///< in alphabetical order
  const Entry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// A tensor of its own memory, on the CPU. Throws FileError when the file has no such tensor, its dtype or
  /// rank is none of fla's, or the file has become shorter.
  Tensor read(std::string_view name) const;

 private:
  std::string path_;
  std::shared_ptr<const int> descriptor_;
  std::uint64_t data_begin_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Writes tensors that lie on the CPU, whole or not at all (AtomicFile). Strides are honoured; the file is
/// row-major.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace fla::cases
