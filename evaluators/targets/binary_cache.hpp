// Compiled kernels on disk: <folder>/ab/<key>.so (cpu) or .cubin (cuda) and <key>.json beside it. Written to
// a temporary name, synced, renamed; an entry whose bytes do not match its hash counts as absent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "evaluators/targets/target.hpp"

namespace cultivar {

class BinaryCache {  // safe to use from several threads and processes
 public:
  // `suffix`: of the objects, ".so".
  BinaryCache(std::filesystem::path folder, std::string suffix)
      : folder_(std::move(folder)), suffix_(std::move(suffix)) {}

  std::optional<Binary> find(const std::string& key) const;
  // Moves nothing: copies `object` in. The result names the cached file.
  Expected<Binary> store(const std::string& key, const std::filesystem::path& object, Binary) const;

 private:
  std::filesystem::path folder_;
  std::string suffix_;
};

Expected<std::string> read_file(const std::filesystem::path&);
// Temporary name in the same folder, fsync, rename.
Expected<void> write_file_durably(const std::filesystem::path&, std::string_view contents);

}  // namespace cultivar
