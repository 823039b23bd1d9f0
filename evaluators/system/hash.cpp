// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/hash.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <memory>
#include <stdexcept>

namespace cultivar {

std::string sha256_hex(std::string_view bytes) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest, &size) != 1)
    throw std::runtime_error("OpenSSL does not provide SHA-256");
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace cultivar
