// Puts GGUF files together byte by byte, sound ones and damaged ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::capture {

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

inline void append_string(std::string& bytes, const std::string& text) {
  append<std::uint64_t>(bytes, text.size());
  bytes += text;
}

class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;

  void add_raw(const std::string& key, std::uint32_t type, const std::string& payload) {
    append_string(metadata_, key);
    append(metadata_, type);
    metadata_ += payload;
    ++num_values_;
  }
  template <typename T>
  void add_scalar(const std::string& key, std::uint32_t type, T value) {
    std::string payload;
    append(payload, value);
    add_raw(key, type, payload);
  }
  void add_u32(const std::string& key, std::uint32_t value) { add_scalar(key, 4, value); }
  void add_f32(const std::string& key, float value) { add_scalar(key, 6, value); }
  void add_bool(const std::string& key, bool value) {
    add_scalar<std::uint8_t>(key, 7, value ? 1 : 0);
  }
  void add_text(const std::string& key, const std::string& value) {
    std::string payload;
    append_string(payload, value);
    add_raw(key, 8, payload);
  }
  void add_texts(const std::string& key, const std::vector<std::string>& values) {
    std::string payload;
    append<std::uint32_t>(payload, 8);
    append<std::uint64_t>(payload, values.size());
    for (const auto& value : values) append_string(payload, value);
    add_raw(key, 9, payload);
  }
  void add_ints(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string payload;
    append<std::uint32_t>(payload, 5);
    append<std::uint64_t>(payload, values.size());
    for (const auto value : values) append(payload, value);
    add_raw(key, 9, payload);
  }

  // `shape` row-major; `data` is taken as it is.
  void add_tensor(const std::string& name, std::uint32_t type, std::vector<std::uint64_t> shape,
                  const std::string& data) {
    pad(data_);
    add_tensor_at(name, type, std::move(shape), data_.size());
    data_ += data;
  }
  void add_tensor_at(const std::string& name, std::uint32_t type, std::vector<std::uint64_t> shape,
                     std::uint64_t offset) {
    append_string(tensors_, name);
    append(tensors_, static_cast<std::uint32_t>(shape.size()));
    for (auto it = shape.rbegin(); it != shape.rend(); ++it) append(tensors_, *it);
    append(tensors_, type);
    append(tensors_, offset);
    ++num_tensors_;
  }
  void add_f32_tensor(const std::string& name, std::vector<std::uint64_t> shape,
                      const std::vector<float>& values) {
    add_tensor(name, 0, std::move(shape),
               {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  std::string bytes() const {
    std::string bytes = "GGUF";
    append(bytes, version);
    append(bytes, num_tensors_);
    append(bytes, num_values_);
    bytes += metadata_ + tensors_;
    pad(bytes);
    return bytes + data_;
  }

  std::filesystem::path write(const std::string& name) const { return write_bytes(name, bytes()); }

  // Into the test's own working folder.
  static std::filesystem::path write_bytes(const std::string& name, const std::string& bytes) {
    std::ofstream(name, std::ios::binary) << bytes;
    return name;
  }

 private:
  void pad(std::string& bytes) const {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  }

  std::uint64_t num_tensors_ = 0, num_values_ = 0;
  std::string metadata_, tensors_, data_;
};

}  // namespace kvloupe::capture
