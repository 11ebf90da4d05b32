#include "tools/conformance/device_call.h"

#include <algorithm>
#include <cstring>

namespace fla::conformance {
namespace {

constexpr std::size_t kMargin = 256;
constexpr std::size_t kAlignment = 64;
constexpr std::byte kPoison{0xff};

/// The bytes that a view's elements and what is between them occupy.
std::span<std::byte> bytes_under(const TensorView& view) {
  const TensorView::Extent extent = view.extent();
  return {view.as<std::byte>() + extent.begin, static_cast<std::size_t>(extent.end - extent.begin)};
}

bool same_memory(const TensorView& a, const TensorView& b) {
  return a.defined() && b.defined() && a.data() == b.data() && a.dtype() == b.dtype() &&
         std::ranges::equal(a.shape(), b.shape()) && std::ranges::equal(a.strides(), b.strides());
}

/// Of an output that is an input in place, that input.
template <class Args>
const Argument* place_of(const Argument& output, const Args& args) {
  const Argument* const input = find_argument(Args::arguments(), output.in_place_of);
  return input != nullptr && same_memory(output.tensor(&args), input->tensor(&args)) ? input : nullptr;
}

template <class Args>
bool is_written(const Argument& argument, const Args& args) {
  return argument.kind == ArgumentKind::output ||
         std::ranges::any_of(Args::arguments(), [&](const Argument& output) {
           return output.is_tensor() && place_of(output, args) == &argument;
         });
}

template <class Args>
bool is_given_outputs(const Args& args) {
  return std::ranges::any_of(Args::arguments(), [&](const Argument& argument) {
    return argument.kind == ArgumentKind::output && argument.name != "final_state" && argument.given(&args);
  });
}

}  // namespace

SurroundedMemory::SurroundedMemory(Device device, std::size_t bytes, std::size_t misalignment)
    : device_(device), bytes_(bytes), first_(kMargin + misalignment) {
  const std::size_t all = (first_ + bytes + kMargin + 3) / 4 * 4;
  sent_.assign(all, kPoison);
  memory_ = allocate_on(device, all, {});
  transfer(sent_, true);
}

std::byte* SurroundedMemory::data() const { return static_cast<std::byte*>(memory_.get()) + first_; }

void SurroundedMemory::transfer(std::vector<std::byte>& host, bool to_device) const {
  const auto words = static_cast<std::int64_t>(host.size() / 4);
  const TensorView here(host.data(), DType::i32, {words});
  const TensorView there(memory_.get(), DType::i32, {words}, device_);
  if (to_device) {
    copy(here, there);
  } else {
    copy(there, here);
  }
}

void SurroundedMemory::send(std::span<const std::byte> contents) {
  std::ranges::copy(contents.first(bytes_), sent_.begin() + static_cast<std::ptrdiff_t>(first_));
  transfer(sent_, true);
}

std::vector<std::byte> SurroundedMemory::fetch() {
  found_.resize(sent_.size());
  transfer(found_, false);
  const auto begin = found_.begin() + static_cast<std::ptrdiff_t>(first_);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes_)};
}

bool SurroundedMemory::intact_around() const {
  const auto poison = [](std::byte byte) { return byte == kPoison; };
  const auto begin = found_.begin() + static_cast<std::ptrdiff_t>(first_);
  return std::all_of(found_.begin(), begin, poison) &&
         std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), found_.end(), poison);
}

template <class Args>
DeviceCall<Args>::DeviceCall(const Args& host, Device device, DeviceIndices indices)
    : device_(device), indices_(indices), host_(host), args_(host) {
  mirrors_.reserve(Args::arguments().size());
  for (const Argument& argument : Args::arguments()) {
    if (argument.is_tensor() && argument.tensor(&host).defined()) mirror(argument);
  }
  load(host);
  if constexpr (requires { args_.workspace; }) {
    if (!is_given_outputs(host)) return;
    const SurroundedMemory& workspace = workspace_.emplace_back(device, workspace_size(args_));
    args_.workspace = {workspace.data(), workspace.bytes()};
  }
}

template <class Args>
void DeviceCall<Args>::mirror(const Argument& argument) {
  if (argument.kind == ArgumentKind::index && indices_ == DeviceIndices::on_host) return;
  const TensorView& host = argument.tensor(&host_);
  TensorView& there = argument.tensor(static_cast<void*>(&args_));
  if (const Argument* const place = place_of(argument, host_)) {
    there = place->tensor(&args_);
    return;
  }
  const std::span<std::byte> bytes = bytes_under(host);
  SurroundedMemory memory(device_, bytes.size(), reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment);
  there =
      TensorView(memory.data() - host.extent().begin, host.dtype(), host.shape(), host.strides(), device_);
  mirrors_.push_back({&argument, std::move(memory), is_written(argument, host_)});
}

template <class Args>
void DeviceCall<Args>::load(const Args& host) {
  host_ = host;
  damage_.clear();
  for (Mirror& mirror : mirrors_) mirror.memory.send(bytes_under(mirror.argument->tensor(&host)));
  if (indices_ == DeviceIndices::on_device) return;
  for (const Argument& argument : Args::arguments()) {
    if (argument.kind == ArgumentKind::index)
      argument.tensor(static_cast<void*>(&args_)) = argument.tensor(&host);
  }
}

template <class Args>
typename Args::Result DeviceCall<Args>::bring_back(const Result& result) {
  synchronize(device_, args_.stream);
  for (Mirror& mirror : mirrors_) {
    const std::vector<std::byte> bytes = mirror.memory.fetch();
    const std::string name(mirror.argument->name);
    if (!mirror.memory.intact_around()) damage_ += "wrote around " + name + "; ";
    if (!mirror.written) {
      if (!mirror.memory.intact()) damage_ += "wrote into " + name + "; ";
    } else if (!bytes.empty()) {
      std::memcpy(bytes_under(mirror.argument->tensor(&host_)).data(), bytes.data(), bytes.size());
    }
  }
  for (SurroundedMemory& workspace : workspace_) {
    (void)workspace.fetch();
    if (!workspace.intact_around()) damage_ += "wrote around the workspace; ";
  }
  Result here = result;
  visit_results(here, [this](std::string_view name, Tensor& tensor) {
    if (!tensor.defined()) return;
    const Argument& argument = *find_argument(Args::arguments(), name);
    tensor = tensor.data() == argument.tensor(&args_).data() ? Tensor::over(argument.tensor(&host_))
                                                             : copy_to(tensor, {}, args_.stream);
  });
  return here;
}

#define FLA_OP(NAME, ARGS)                   \
  template class DeviceCall<ARGS>;           \
  template class DeviceCall<ARGS::Backward>; \
  template class DeviceCall<ARGS::Summary>;
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP
#define FLA_OP(NAME, ARGS) template class DeviceCall<ARGS>;
FLA_LAYER_OPS(FLA_OP)
FLA_STEP_OPS(FLA_OP)
FLA_OP(merge, MergeArgs)
#undef FLA_OP

}  // namespace fla::conformance
