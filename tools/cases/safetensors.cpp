#include "tools/cases/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "fla/core/json_line.h"
#include "tools/cases/atomic_file.h"

namespace fla::cases {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and bytes are not swapped");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr int kMaxNesting = 4;                     // a header has 3 levels: header, tensor, shape

struct FormatType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> type;
};

constexpr std::array kFormatTypes{
    FormatType{"BF16", 16, DType::bf16}, FormatType{"F16", 16, DType::f16}, FormatType{"F32", 32, DType::f32},
    FormatType{"I32", 32, DType::i32},   FormatType{"I64", 64, DType::i64}, FormatType{"F64", 64, {}},
    FormatType{"BOOL", 8, {}},           FormatType{"U8", 8, {}},           FormatType{"I8", 8, {}},
    FormatType{"U16", 16, {}},           FormatType{"I16", 16, {}},         FormatType{"U32", 32, {}},
    FormatType{"U64", 64, {}},           FormatType{"F8_E4M3", 8, {}},      FormatType{"F8_E5M2", 8, {}},
    FormatType{"F8_E8M0", 8, {}},        FormatType{"C64", 64, {}},         FormatType{"F4", 4, {}},
    FormatType{"F6_E2M3", 6, {}},        FormatType{"F6_E3M2", 6, {}},
};

const FormatType* format_type(std::string_view name) {
  const auto found = std::ranges::find(kFormatTypes, name, &FormatType::name);
  return found == kFormatTypes.end() ? nullptr : &*found;
}

std::string_view format_name(DType type) {
  const auto found = std::ranges::find(kFormatTypes, std::optional(type), &FormatType::type);
  return found->name;
}

void read_bytes(const std::string& path, int descriptor, void* to, std::uint64_t size, std::uint64_t at) {
  char* next = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = ::pread(descriptor, next, size, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(path, std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) throw FileError(path, "ended while it was read");
    next += got;
    at += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
  }
}

/// JSON lets the last of two equal keys win, silently; the format forbids them.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(const std::string& path) : path_(path) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kMaxNesting) throw FileError(path_, "the header is nested too deeply");
    if (event == Event::object_start) seen_.emplace_back();
    if (event == Event::object_end) seen_.pop_back();
    if (event == Event::key && !seen_.back().insert(parsed.get<std::string>()).second) {
      throw FileError(path_, "the header has '" + parsed.get<std::string>() + "' twice");
    }
    return true;
  }

 private:
  const std::string& path_;
  std::vector<std::set<std::string>> seen_;
};

Json parse_header(const std::string& path, const std::string& text) {
  try {
    DuplicateKeys keys(path);
    Json header = Json::parse(text, std::ref(keys));
    if (!header.is_object()) throw FileError(path, "the header must be a JSON object");
    return header;
  } catch (const Json::parse_error& error) {
    throw FileError(path, "the header is not JSON, which shows at its byte " + std::to_string(error.byte));
  } catch (const Json::out_of_range&) {
    throw FileError(path, "the header has a number that is too large for a double");
  }
}

std::uint64_t whole_number(const std::string& path, const std::string& tensor, const Json& value,
                           std::string_view field) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 62;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMax) {
    throw FileError(path, tensor,
                    std::string(field) + " must hold whole numbers from 0 to 2^62, got " + json_line(value));
  }
  return value.get<std::uint64_t>();
}

const Json& list_field(const std::string& path, const std::string& tensor, const Json& entry,
                       const char* field) {
  const auto found = entry.find(field);
  if (found == entry.end()) throw FileError(path, tensor, std::string("has no ") + field);
  if (!found->is_array()) throw FileError(path, tensor, std::string(field) + " must be a list");
  return *found;
}

Safetensors::Entry read_entry(const std::string& path, const std::string& name, const Json& json) {
  if (!json.is_object()) throw FileError(path, name, "its description must be a JSON object");
  Safetensors::Entry entry{.name = name, .dtype = {}, .type = {}, .shape = {}};
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) throw FileError(path, name, "has no dtype");
  entry.dtype = dtype->get<std::string>();
  for (const Json& size : list_field(path, name, json, "shape")) {
    entry.shape.push_back(static_cast<std::int64_t>(whole_number(path, name, size, "shape")));
  }
  const Json& offsets = list_field(path, name, json, "data_offsets");
  if (offsets.size() != 2)
    throw FileError(path, name, "data_offsets must be two numbers, got " + json_line(offsets));
  entry.begin = whole_number(path, name, offsets[0], "data_offsets");
  entry.end = whole_number(path, name, offsets[1], "data_offsets");
  if (entry.begin > entry.end) {
    throw FileError(path, name, "data_offsets must not fall, got " + json_line(offsets));
  }
  return entry;
}

/// The shape and the dtype must make up the bytes. A dtype that nobody knows has no size to check.
void check_size(const std::string& path, Safetensors::Entry& entry) {
  const FormatType* format = format_type(entry.dtype);
  if (format == nullptr) return;
  entry.type = format->type;
  std::uint64_t bits = format->bits;
  const bool empty = std::ranges::count(entry.shape, 0) > 0;
  for (const std::int64_t size : entry.shape) {
    if (empty) {
      bits = 0;
    } else if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits)) {
      throw FileError(path, entry.name,
                      "shape " + shape_text(entry.shape) + " of " + entry.dtype + " overflows");
    }
  }
  if (bits % 8 != 0 || bits / 8 != entry.end - entry.begin) {
    throw FileError(path, entry.name,
                    "shape " + shape_text(entry.shape) + " of " + entry.dtype + " takes " +
                        std::to_string(bits / 8) + " bytes, data_offsets give it " +
                        std::to_string(entry.end - entry.begin));
  }
}

/// In the order of their places the tensors must follow each other without gap or overlap, and fill the file.
void check_places(const std::string& path, const std::vector<Safetensors::Entry>& entries,
                  std::uint64_t data_size) {
  std::vector<const Safetensors::Entry*> order;
  for (const Safetensors::Entry& entry : entries) {
    if (entry.end > data_size) {
      throw FileError(path, entry.name,
                      "ends at byte " + std::to_string(entry.end) + " of the data, which has " +
                          std::to_string(data_size) + ": the file is truncated or its header lies");
    }
    order.push_back(&entry);
  }
  std::ranges::sort(order, {}, [](const auto* entry) { return std::pair(entry->begin, entry->end); });
  std::uint64_t end = 0;
  const Safetensors::Entry* before = nullptr;
  for (const Safetensors::Entry* entry : order) {
    if (entry->begin < end) throw FileError(path, entry->name, "overlaps tensor '" + before->name + "'");
    if (entry->begin > end) {
      throw FileError(path, entry->name,
                      "begins at byte " + std::to_string(entry->begin) +
                          " of the data, after a hole from byte " + std::to_string(end));
    }
    end = entry->end;
    before = entry;
  }
  if (end != data_size) {
    throw FileError(path, std::to_string(data_size - end) + " bytes of data belong to no tensor");
  }
}

Tensor row_major(const NamedTensor& named) {
  const TensorView& view = named.tensor.view();
  if (view.is_contiguous()) return named.tensor;
  Tensor copy = Tensor::empty(view.shape(), view.dtype());
  const std::size_t element = size_of(view.dtype());
  char* to = copy.as<char>();
  for (std::int64_t i = 0; i < view.numel(); ++i, to += element) {
    std::int64_t rest = i, offset = 0;
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
      offset += rest % view.size(axis) * view.stride(axis);
      rest /= view.size(axis);
    }
    std::memcpy(to, view.as<const char>() + offset * static_cast<std::int64_t>(element), element);
  }
  return copy;
}

}  // namespace

Safetensors Safetensors::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw FileError(path, std::string("cannot be read: ") + std::strerror(errno));
  Safetensors file;
  file.path_ = path;
  file.descriptor_ = std::shared_ptr<const int>(new int(descriptor), [](const int* open) {
    ::close(*open);
    delete open;
  });

  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw FileError(path, std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw FileError(path, "is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < kLengthBytes) {
    throw FileError(path,
                    "is truncated: " + std::to_string(size) + " bytes, the header's length alone takes 8");
  }
  std::uint64_t length = 0;
  read_bytes(path, descriptor, &length, kLengthBytes, 0);
  if (length > kMaxHeader) {
    throw FileError(path, "its header claims " + std::to_string(length) + " bytes, the format allows " +
                              std::to_string(kMaxHeader));
  }
  if (length > size - kLengthBytes) {
    throw FileError(path, "its header claims " + std::to_string(length) + " bytes, the file has " +
                              std::to_string(size - kLengthBytes) + " left");
  }
  std::string text(length, '\0');
  read_bytes(path, descriptor, text.data(), length, kLengthBytes);
  file.data_begin_ = kLengthBytes + length;

  const Json header = parse_header(path, text);
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") {
      if (!json.is_object()) throw FileError(path, "__metadata__ must be a JSON object");
      for (const auto& [key, value] : json.items()) {
        if (!value.is_string()) throw FileError(path, "__metadata__ '" + key + "' must be a string");
        file.metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    Entry entry = read_entry(path, name, json);
    check_size(path, entry);
    file.entries_.push_back(std::move(entry));
  }
  check_places(path, file.entries_, size - file.data_begin_);
  return file;
}

const Safetensors::Entry* Safetensors::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

Tensor Safetensors::read(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) throw FileError(path_, name, "is not in the file");
  if (!entry->type) {
    throw FileError(path_, name, "dtype must be BF16, F16, F32, I32 or I64, got " + entry->dtype);
  }
  if (entry->shape.size() > TensorView::kMaxRank) {
    throw FileError(path_, name,
                    "must have at most " + std::to_string(TensorView::kMaxRank) + " dimensions, got " +
                        std::to_string(entry->shape.size()));
  }
  Tensor tensor = Tensor::empty(entry->shape, *entry->type);
  read_bytes(path_, *descriptor_, tensor.data(), entry->end - entry->begin, data_begin_ + entry->begin);
  return tensor;
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Wide elements first, as the format's own writers do: every tensor is then aligned to its element.
  std::vector<NamedTensor> order;
  for (const NamedTensor& named : tensors) order.push_back({named.name, row_major(named)});
  std::ranges::sort(order, {}, [](const NamedTensor& named) {
    return std::pair(-static_cast<int>(size_of(named.tensor.dtype())), std::string_view(named.name));
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : order) {
    const std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype());
    header[name] = {{"dtype", format_name(tensor.dtype())},
                    {"shape", std::vector(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {begin, end}}};
  }
  std::string text = json_line(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');

  AtomicFile file(path);
  const std::uint64_t length = text.size();
  file.write(&length, kLengthBytes);
  file.write(text);
  for (const auto& [name, tensor] : order) {
    file.write(tensor.data(), static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
  }
  file.commit();
}

}  // namespace fla::cases
