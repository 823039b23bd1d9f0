// Identity and lint of a variant.
#include "evaluators/variant/variant.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <memory>
#include <stdexcept>

#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

}  // namespace

std::string normalised(std::string_view source) {
  if (source.starts_with(byte_order_mark)) source.remove_prefix(byte_order_mark.size());
  std::string result;
  result.reserve(source.size() + 1);
  std::size_t at = 0;
  while (at < source.size()) {
    const std::size_t end = std::min(source.find_first_of("\r\n", at), source.size());
    std::string_view line = source.substr(at, end - at);
    const std::size_t last = line.find_last_not_of(" \t\f\v");
    if (marked_file(line))
      while (result.ends_with("\n\n")) result.pop_back();
    result += line.substr(0, last == std::string_view::npos ? 0 : last + 1);
    result += '\n';
    at = end + (source.substr(end).starts_with("\r\n") ? 2 : 1);
  }
  while (result.ends_with("\n\n")) result.pop_back();
  if (result == "\n") result.clear();
  return result;
}

std::string sha256_hex(std::string_view bytes) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest, &size) != 1)
    throw std::runtime_error("OpenSSL refuses SHA-256");
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

tl::expected<Variant, ManifestError> make_variant(std::string source, const Task& task,
                                                  Configuration configuration) {
  if (source.starts_with(byte_order_mark)) source.erase(0, byte_order_mark.size());  // NVRTC cannot read it
  auto manifest = parse_manifest(source);
  if (!manifest) return tl::make_unexpected(manifest.error());
  if (const auto checked = check_manifest(*manifest, task, source); !checked)
    return tl::make_unexpected(checked.error());
  if (const auto checked = check_headers(*manifest, source); !checked)
    return tl::make_unexpected(checked.error());
  for (std::size_t i = 0; i < manifest->headers.size(); ++i)
    if (manifest->headers[i] == task.name + ".hpp")
      return tl::make_unexpected(ManifestError{
          line_of(source, fmt::format("headers[{}]", i)),
          fmt::format("{}.hpp is the launcher's name where a kernel is exported (choose another)",
                      task.name)});
  for (const Tunable& tunable : manifest->tunables) configuration.try_emplace(tunable.name, tunable.fallback);
  if (const auto checked = check_configuration(manifest->tunables, configuration); !checked)
    return tl::make_unexpected(ManifestError{line_of(source, "tunables"), checked.error().message});
  Variant variant;
  variant.source_id = sha256_hex(normalised(source));
  variant.id = sha256_hex(variant.source_id + "\n" + to_string(manifest->tunables, configuration));
  variant.source = std::move(source);
  variant.manifest = *std::move(manifest);
  variant.configuration = std::move(configuration);
  return variant;
}

tl::expected<void, ManifestError> check_target(const Variant& variant, TargetKind where) {
  const TargetKind own = variant.manifest.target;
  if (own == where) return {};
  return tl::make_unexpected(ManifestError{
      line_of(variant.source, "target"),
      fmt::format("target: is {0}, and this is {1} (say --target {0}, or write the kernel for {1})",
                  name_of(own), name_of(where))});
}

}  // namespace cultivar
