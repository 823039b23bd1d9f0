#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "evaluators/worker/requests.hpp"

namespace cultivar {

Compiled library_contender(const std::string& name, const std::filesystem::path& library, TargetKind target) {
  std::ifstream file(library, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (bytes.empty())
    throw InputError(fmt::format("the contender {} ({}) cannot be read", name, library.string()));
  Compiled contender;
  contender.library = library;
  contender.variant.manifest.name = name;
  contender.variant.manifest.target = target;
  contender.variant.id = sha256_hex(bytes);
  return contender;
}

}  // namespace cultivar
