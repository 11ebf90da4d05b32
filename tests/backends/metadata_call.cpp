#include "tests/backends/metadata_call.h"

namespace fla_test {

using fla::DType;
using fla::KdaArgs;
using fla::TensorView;

TensorView MetadataTensors::tensor(std::initializer_list<std::int64_t> shape, DType dtype) {
  last_ += std::uintptr_t{1} << 40;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that nobody reads
  return TensorView(reinterpret_cast<const void*>(last_), dtype, shape, {fla::DeviceType::cuda, 0});
}

TensorView MetadataTensors::strided(const TensorView& view, int axis, std::int64_t stride) {
  std::vector<std::int64_t> strides(view.strides().begin(), view.strides().end());
  strides[static_cast<std::size_t>(axis)] = stride;
  return TensorView(view.data(), view.dtype(), view.shape(), strides, view.device());
}

TensorView MetadataTensors::moved(const TensorView& view, std::int64_t bytes) {
  return TensorView(view.as<const std::byte>() + bytes, view.dtype(), view.shape(), view.strides(),
                    view.device());
}

void MetadataTensors::put_on(fla::Device device, fla::ArgumentTable table, void* args) {
  for (const fla::Argument& argument : table) {
    if (!argument.is_tensor()) continue;
    TensorView& view = argument.tensor(args);
    if (view.defined() && argument.kind != fla::ArgumentKind::index)
      view = TensorView(view.data(), view.dtype(), view.shape(), view.strides(), device);
  }
}

void MetadataCall::put_on(fla::Device device) {
  MetadataTensors::put_on(device, KdaArgs::arguments(), &args);
  if (args.state_indices.defined() && !device.is_cpu())
    args.state_indices =
        TensorView(args.state_indices.data(), DType::i32, args.state_indices.shape(), device);
}

void MetadataCall::index_on_host() {
  slots_.resize(static_cast<std::size_t>(args.q.size(0)));
  for (std::size_t n = 0; n < slots_.size(); ++n) slots_[n] = static_cast<std::int32_t>(n);
  args.state_indices = TensorView(slots_.data(), DType::i32, {args.q.size(0)});
}

}  // namespace fla_test
