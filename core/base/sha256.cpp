#include "core/base/sha256.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace kvloupe {

struct Sha256::Context {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(),
                                                                 &EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  KVLOUPE_CHECK(EVP_DigestInit_ex(context_->digest.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

Sha256& Sha256::update(const void* data, std::size_t size) {
  KVLOUPE_CHECK(EVP_DigestUpdate(context_->digest.get(), data, size) == 1);
  return *this;
}

std::string Sha256::hex_digest() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  KVLOUPE_CHECK(EVP_DigestFinal_ex(context_->digest.get(), digest.data(), &length) == 1);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace kvloupe
