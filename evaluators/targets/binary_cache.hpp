// Compiled kernels on disk: <folder>/ab/<key>.so (cpu) or .cubin (cuda), with <key>.json beside it. Each file
// is written to a temporary name, synced and renamed. An entry whose bytes do not match its hash counts as
// absent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "evaluators/targets/target.hpp"

namespace cultivar {

class BinaryCache {  // safe for concurrent use by threads and processes
 public:
  // `suffix` is the suffix of the objects, such as ".so".
  BinaryCache(std::filesystem::path folder, std::string suffix)
      : folder_(std::move(folder)), suffix_(std::move(suffix)) {}

  std::optional<Binary> find(const std::string& key) const;
  // Copies `object` into the cache and leaves the original. The result names the cached file.
  Expected<Binary> store(const std::string& key, const std::filesystem::path& object, Binary) const;

 private:
  std::filesystem::path folder_;
  std::string suffix_;
};

}  // namespace cultivar
