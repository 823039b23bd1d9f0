#include <fmt/format.h>

#include "evaluators/judge/requests.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {

Compiled library_contender(const std::string& name, const std::filesystem::path& library, Target target) {
  const auto bytes = read_file(library);
  if (!bytes) throw InputError(fmt::format("the contender {} ({}) cannot be read", name, library.string()));
  Compiled contender;
  contender.library = library;
  contender.variant.manifest.name = name;
  contender.variant.manifest.target = target;
  contender.variant.id = sha256_hex(*bytes);
  return contender;
}

}  // namespace cultivar
