// The GGUF reader on hand-made files, sound, damaged and hostile.
#include "capture/model/gguf.h"

#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/capture/gguf_builder.h"

#include <cstring>
#include <limits>
#include <random>

namespace kvloupe::capture {
namespace {

std::string message_of(const std::string& bytes) {
  const auto path = GgufBuilder::write_bytes("damaged.gguf", bytes);
  try {
    const GgufFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
}

GgufBuilder small_file() {
  GgufBuilder builder;
  builder.add_text("general.architecture", "llama");
  builder.add_u32("count", 7);
  builder.add_f32("ratio", 0.25F);
  builder.add_texts("words", {"a", "", "bcd"});
  builder.add_ints("numbers", {3, -4});
  builder.add_f32_tensor("weights", {2, 3}, {0, 1, 2, 3, 4, 5});
  builder.add_f32_tensor("bias", {2}, {6, 7});
  return builder;
}

TEST(Gguf, ReadsMetadataAndTensors) {
  for (const std::uint32_t version : {2U, 3U}) {
    GgufBuilder builder = small_file();
    builder.version = version;
    const GgufFile file(builder.write("small.gguf"));
    EXPECT_EQ(file.text("general.architecture"), "llama");
    EXPECT_EQ(file.integer("count"), 7);
    EXPECT_EQ(file.real("ratio"), 0.25);
    EXPECT_EQ(file.texts("words"), (std::vector<std::string>{"a", "", "bcd"}));
    EXPECT_EQ(file.integers("numbers"), (std::vector<std::int64_t>{3, -4}));
    EXPECT_EQ(file.integer("absent"), std::nullopt);
    ASSERT_EQ(file.tensors().size(), 2U);
    const StoredTensor* bias = file.find_tensor("bias");
    ASSERT_NE(bias, nullptr);
    EXPECT_EQ(bias->shape, std::vector<std::int64_t>{2});
    float values[2];
    ASSERT_EQ(bias->data.size(), sizeof(values));
    std::memcpy(values, bias->data.data(), sizeof(values));
    EXPECT_EQ(values[0], 6);
    EXPECT_EQ(values[1], 7);
    EXPECT_EQ(file.find_tensor("weights")->shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(file.find_tensor("nothing"), nullptr);
  }
}

TEST(Gguf, WrongTypeOfAKeyIsNamed) {
  const GgufFile file(small_file().write("small.gguf"));
  EXPECT_THROW(file.integer("ratio"), Error);
  EXPECT_THROW(file.real("words"), Error);
  EXPECT_THROW(file.text("count"), Error);
  EXPECT_THROW(file.texts("numbers"), Error);
  EXPECT_THROW(file.integers("words"), Error);
  try {
    file.integer("ratio");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("ratio"));
  }
}

TEST(Gguf, RefusesOtherFormats) {
  EXPECT_THAT(message_of(""), HasSubstr("empty"));
  EXPECT_THAT(message_of("GGU"), HasSubstr("letters GGUF"));
  EXPECT_THAT(message_of("PK\3\4 something else"), HasSubstr("letters GGUF"));
  GgufBuilder builder = small_file();
  builder.version = 1;
  EXPECT_THAT(message_of(builder.bytes()), HasSubstr("version is 1"));
  builder.version = 3U << 24;
  EXPECT_THAT(message_of(builder.bytes()), HasSubstr("big-endian"));
  EXPECT_THROW(GgufFile("no/such/file.gguf"), Error);
  EXPECT_THROW(GgufFile("/"), Error);
}

TEST(Gguf, HostileCountsAreRefusedBeforeUse) {
  const auto with_counts = [](std::uint64_t tensors, std::uint64_t values) {
    std::string bytes = "GGUF";
    append<std::uint32_t>(bytes, 3);
    append(bytes, tensors);
    append(bytes, values);
    return bytes + std::string(64, '\0');
  };
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(message_of(with_counts(kMax, 0)), HasSubstr("tensors, more than fit"));
  EXPECT_THAT(message_of(with_counts(0, kMax)), HasSubstr("keys, more than fit"));
  EXPECT_THAT(message_of(with_counts(1000, 0)), HasSubstr("more than fit"));
}

TEST(Gguf, HostileMetadataIsNamed) {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  const auto value = [](std::uint32_t type, const std::string& payload) {
    GgufBuilder builder;
    builder.add_raw("the.key", type, payload);
    return message_of(builder.bytes());
  };
  std::string payload;
  append(payload, kMax);
  EXPECT_THAT(value(8, payload), HasSubstr("the.key"));
  payload.clear();
  append<std::uint32_t>(payload, 4);
  append(payload, kMax / 4 + 1);  // times 4 bytes wraps around to a small number
  EXPECT_THAT(value(9, payload), HasSubstr("the.key"));
  payload.clear();
  append<std::uint32_t>(payload, 8);
  append(payload, kMax);
  EXPECT_THAT(value(9, payload), HasSubstr("the.key"));
  EXPECT_THAT(value(13, std::string(8, '\0')), HasSubstr("unknown value type 13"));
  payload.clear();
  append<std::uint32_t>(payload, 99);
  append<std::uint64_t>(payload, 0);
  EXPECT_THAT(value(9, payload), HasSubstr("unknown value type 99"));
  // An array of arrays of arrays ...
  payload.clear();
  for (int depth = 0; depth < 1000; ++depth) {
    append<std::uint32_t>(payload, 9);
    append<std::uint64_t>(payload, 1);
  }
  EXPECT_THAT(value(9, payload), HasSubstr("nests"));

  GgufBuilder twice;
  twice.add_u32("the.key", 1);
  twice.add_u32("the.key", 2);
  EXPECT_THAT(message_of(twice.bytes()), HasSubstr("the.key appears twice"));
  for (const std::uint32_t alignment : {0U, 24U, 1U << 30}) {
    GgufBuilder builder;
    builder.add_u32("general.alignment", alignment);
    EXPECT_THAT(message_of(builder.bytes()), HasSubstr("general.alignment"));
  }
}

TEST(Gguf, HostileTensorsAreNamed) {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  const auto tensor = [](std::uint32_t type, std::vector<std::uint64_t> shape,
                         std::uint64_t offset) {
    GgufBuilder builder;
    builder.add_tensor("fine", 0, {16}, std::string(64, '\0'));
    builder.add_tensor_at("culprit", type, std::move(shape), offset);
    return message_of(builder.bytes());
  };
  EXPECT_EQ(tensor(0, {16}, 0), "no error");
  for (const auto& message : {
           tensor(0, {17}, 0),                      // beyond the end
           tensor(0, {1}, 64),                      // begins at the end
           tensor(0, {1}, kMax - 31),               // offset wraps around
           tensor(0, {1}, 4),                       // not aligned
           tensor(0, {}, 0),                        // no dimension
           tensor(0, {1, 1, 1, 1, 1}, 0),           // too many
           tensor(0, {0}, 0),                       // empty
           tensor(0, {1ULL << 32, 1ULL << 32}, 0),  // elements overflow
           tensor(0, {1ULL << 62}, 0),              // bytes overflow
           tensor(0, {kMax}, 0),                    // negative as signed
           tensor(2, {2, 16}, 0),                   // rows are not whole blocks
           tensor(12, {256}, 0),                    // Q4_K
           tensor(4711, {32}, 0),                   // no type of the format
       }) {
    EXPECT_THAT(message, HasSubstr("culprit"));
  }
  GgufBuilder twice;
  twice.add_tensor("same", 0, {16}, std::string(64, '\0'));
  twice.add_tensor("same", 0, {16}, std::string(64, '\0'));
  EXPECT_THAT(message_of(twice.bytes()), HasSubstr("same appears twice"));
}

TEST(Gguf, NamesFromTheFileReachNoTerminalUnfiltered) {
  GgufBuilder builder;
  builder.add_raw("\x1b[31m" + std::string(500, 'x'), 77, "");
  const std::string message = message_of(builder.bytes() + std::string(64, '\0'));
  EXPECT_THAT(message, HasSubstr("?[31mxxx"));
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 400U);
}

// Reads everything that a sound file offers; a damaged one may fail only with Error{Input}.
void read_all(const std::string& bytes) {
  const auto path = GgufBuilder::write_bytes("fuzzed.gguf", bytes);
  try {
    const GgufFile file(path);
    for (const auto& tensor : file.tensors()) {
      unsigned sum = 0;
      for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
      EXPECT_LE(sum, 255U * tensor.data.size());
    }
    file.texts("words");
    file.integers("numbers");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
  }
}

TEST(Gguf, EveryTruncationIsRefused) {
  const std::string bytes = small_file().bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(message_of(bytes.substr(0, size)), "no error") << size;
  }
}

TEST(Gguf, FlippedBytesNeverReachBeyondTheFile) {
  const std::string bytes = small_file().bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const unsigned char value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(value);
      read_all(damaged);
    }
  }
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes;
    for (int flip = 0; flip < 4; ++flip)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    read_all(damaged);
  }
}

}  // namespace
}  // namespace kvloupe::capture
