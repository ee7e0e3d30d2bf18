// SHA-256 against the examples of FIPS 180-4 and coreutils' sha256sum.
#include "core/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace kvloupe {
namespace {

std::string sha256(const std::string& text) { return Sha256().update(text).hex_digest(); }

TEST(Sha256Test, PublishedExamples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesGiveTheSameAsTheWhole) {
  const std::string text(1000, 'x');
  Sha256 hash;
  for (std::size_t begin = 0, size = 1; begin < text.size(); begin += size, size += 7) {
    hash.update(text.substr(begin, size));
  }
  EXPECT_EQ(hash.hex_digest(), sha256(text));
}

}  // namespace
}  // namespace kvloupe
