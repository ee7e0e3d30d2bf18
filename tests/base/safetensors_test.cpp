// Safetensors files, against bytes laid out by hand as the format describes them.
#include "core/base/safetensors.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public testing::Test {
 protected:
  fs::path write(const std::string& bytes) const {
    const fs::path path = folder_ / "file.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string with_header(const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i)
      bytes[i] = static_cast<char>((header.size() >> (8 * i)) & 0xFF);
    return bytes + header + data;
  }
  // The reason for which a file is refused, and that it is an input error.
  std::string refusal(const std::string& bytes) const {
    try {
      const SafetensorsFile file(write(bytes), "give another");
      for (const auto& [name, entry] : file.entries()) file.read(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_EQ(error.remedy(), "give another");
      return error.why();
    }
    return "";
  }

  const TemporaryFolder folder_;
};

TEST_F(SafetensorsTest, ReadsEachFloatTypeAndTheMetadata) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F16","shape":[6],"data_offsets":[8,20]},)"
                             R"("c":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]},)"
                             R"("d":{"dtype":"F32","shape":[],"data_offsets":[24,28]}})";
  // 1.5, -2; 1, -2, 65504, 2^-24, infinity, 0.333251953125; 1.5, -3; 0.25. Little-endian.
  const std::string data(
      "\x00\x00\xC0\x3F\x00\x00\x00\xC0"
      "\x00\x3C\x00\xC0\xFF\x7B\x01\x00\x00\x7C\x55\x35"
      "\xC0\x3F\x40\xC0"
      "\x00\x00\x80\x3E",
      28);
  const SafetensorsFile file(write(with_header(header, data)), "");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_THAT(file.entries().at("a").shape, ElementsAre(2, 1));
  EXPECT_THAT(file.read("a"), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(file.read("b"), ElementsAre(1.0F, -2.0F, 65504.0F, std::ldexp(1.0F, -24),
                                          std::numeric_limits<float>::infinity(), 0.333251953125F));
  EXPECT_THAT(file.read("c"), ElementsAre(1.5F, -3.0F));
  EXPECT_THAT(file.read("d"), ElementsAre(0.25F));
}

TEST_F(SafetensorsTest, RefusesWhatIsNotOne) {
  const auto tensor = [](const std::string& text) {
    return with_header(R"({"a":)" + text + "}", std::string(8, 'x'));
  };
  const auto f32 = [&](const std::string& shape, const std::string& offsets) {
    return tensor(R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}");
  };
  EXPECT_THAT(refusal(""), HasSubstr("too short"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("too short"));
  EXPECT_THAT(refusal(std::string(8, '\xFF') + "{}"), HasSubstr("longer than the file"));
  EXPECT_THAT(refusal(with_header("[1]", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(with_header(R"({"a":)", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(with_header(std::string(100000, '['), "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(with_header(R"({"__metadata__":{"a":1}})", "")), HasSubstr("metadata a"));
  EXPECT_THAT(refusal(tensor("3")), HasSubstr("lacks dtype"));
  EXPECT_THAT(refusal(tensor(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})")),
              HasSubstr("type F33"));
  EXPECT_THAT(refusal(tensor(R"({"dtype":"I32","shape":[2],"data_offsets":[0,8]})")),
              HasSubstr("type I32"));
  EXPECT_THAT(refusal(f32("[3]", "[0,12]")), HasSubstr("not all in the file"));
  EXPECT_THAT(refusal(f32("[2]", "[8,0]")), HasSubstr("not all in the file"));
  EXPECT_THAT(refusal(f32("[1]", "[0,8]")), HasSubstr("takes 4 bytes where the file has 8"));
  EXPECT_THAT(refusal(f32("[-2]", "[0,8]")), HasSubstr("no whole number"));
  EXPECT_THAT(refusal(f32("[2.0]", "[0,8]")), HasSubstr("no whole number"));
  // 2^33 * 2^31 * 4 bytes wraps round to 0.
  EXPECT_THAT(refusal(f32("[8589934592,2147483648]", "[0,0]")), HasSubstr("larger than the file"));
  const std::string once = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_THAT(refusal(with_header("{" + once + "," + once + "}", std::string(8, 'x'))),
              HasSubstr("twice"));
}

TEST_F(SafetensorsTest, SaysWhatIsMissing) {
  EXPECT_THROW(SafetensorsFile(folder_ / "none", ""), Error);
  EXPECT_THROW(SafetensorsFile(folder_.path(), ""), Error);
  const SafetensorsFile file(write(with_header("{}", "")), "");
  EXPECT_THROW(file.read("a"), Error);
}

TEST_F(SafetensorsTest, ReadsBackWhatItWrote) {
  const fs::path path = folder_ / "written";
  const std::map<std::string, NamedTensor> tensors = {
      {"x.weight", {{2, 2}, {1.0F, -0.0F, 3.5F, 1e-30F}}}, {"a", {{0}, {}}}, {"z", {{1}, {7.0F}}}};
  write_safetensors(path, tensors, {{"source", "a \"text\"\n"}});
  const SafetensorsFile file(path, "");
  EXPECT_EQ(file.metadata().at("source"), "a \"text\"\n");
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.entries().at(name).shape, tensor.shape);
    EXPECT_EQ(file.read(name), tensor.values);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(SafetensorsTest, LeavesNothingWhereItCannotWrite) {
  fs::create_directory(folder_ / "taken");
  EXPECT_THROW(write_safetensors(folder_ / "taken", {{"a", {{1}, {1.0F}}}}, {}), Error);
  EXPECT_THROW(write_safetensors(folder_ / "no" / "folder", {{"a", {{1}, {1.0F}}}}, {}), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

// Bytes changed at random: a sentence or a file of the same kind, no crash.
TEST_F(SafetensorsTest, SurvivesDamage) {
  const std::string sound = with_header(
      R"({"__metadata__":{"m":"n"},"a":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
      std::string(12, 'x'));
  EXPECT_EQ(refusal(sound), "");
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = sound;
    for (int change = 0; change < 1 + round % 3; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    if (round % 4 == 0) bytes.resize(random() % bytes.size());
    if (!refusal(bytes).empty()) ++refused;
  }
  EXPECT_GT(refused, 75);
}

}  // namespace
}  // namespace kvloupe
