#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/ops/ops.h"

namespace fla::conformance {

/// Memory on a device between two margins of poison (every byte 0xff: NaN in each float type), all of it
/// poison at first, with what it should hold kept on the host.
class SurroundedMemory {
 public:
  /// The first byte lies `misalignment` bytes after a multiple of 256.
  SurroundedMemory(Device device, std::size_t bytes, std::size_t misalignment = 0);

  std::byte* data() const;
  std::size_t bytes() const { return bytes_; }

  void send(std::span<const std::byte> contents);
  /// What the device holds now.
  std::vector<std::byte> fetch();
  /// Of what fetch() found: whether the margins, and whether everything, is as it was sent.
  bool intact_around() const;
  bool intact() const { return found_ == sent_; }

 private:
  void transfer(std::vector<std::byte>& host, bool to_device) const;

  Device device_;
  std::size_t bytes_, first_;
  std::shared_ptr<void> memory_;
  std::vector<std::byte> sent_, found_;  // with the margins
};

enum class DeviceIndices : std::uint8_t { on_device, on_host };

/// A call on a device that stands for one on the host, of any op in ops.h, forward or backward: every tensor
/// has the same strides there, the same alignment up to 64 bytes, the same bytes between its elements, and
/// poison around them. A call that may have a workspace and is given an output, besides a final state, is
/// given a workspace, too, of exactly the bytes that it needs, full of poison.
///
///     DeviceCall call(args, device);
///     const RecurrenceResult result = call.bring_back(kda(call.args()));
template <class Args>
class DeviceCall {
 public:
  using Result = typename Args::Result;

  /// The host's memory must outlive the call.
  DeviceCall(const Args& host, Device device, DeviceIndices indices = DeviceIndices::on_device);

  const Args& args() const { return args_; }

  /// Puts the tensors of another call of the same layouts, outputs included, into the same device memory.
  void load(const Args& host);

  /// Waits for the call's stream and brings its result back: outputs that the host's call gives are filled,
  /// between their elements, too, with what is on the device; others are new tensors on the host.
  Result bring_back(const Result& result);

  /// What bring_back() found to be written that is no output, one sentence each: "wrote into q; ".
  const std::string& damage() const { return damage_; }

 private:
  struct Mirror {
    const Argument* argument;
    SurroundedMemory memory;
    bool written;
  };
  void mirror(const Argument& argument);

  Device device_;
  DeviceIndices indices_;
  Args host_, args_;
  std::vector<Mirror> mirrors_;
  std::vector<SurroundedMemory> workspace_;  // one, or none
  std::string damage_;
};

}  // namespace fla::conformance
