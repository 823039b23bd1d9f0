// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "evaluators/judge/requests.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {

Compiled library_contender(const std::string& name, const ContenderFile& file, Target target) {
  const std::filesystem::path& library = file.library;
  auto bytes = read_file(library);
  if (!bytes) throw InputError(fmt::format("the contender {} ({}) cannot be read", name, library.string()));
  *bytes += file.program;
  if (file.program.ends_with(".py")) {
    const auto program = read_file(file.program);
    if (!program) throw InputError(fmt::format("the contender {} ({}) cannot be read", name, file.program));
    *bytes += *program;
  }
  Compiled contender;
  contender.library = library;
  contender.program = file.program;
  contender.variant.manifest.name = name;
  contender.variant.manifest.target = target;
  contender.variant.id = sha256_hex(*bytes);
  return contender;
}

}  // namespace cultivar
