// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk: <folder>/ab/<key>.so (cpu) or .cubin (cuda), with <key>.json beside it. Each file
// is written to a temporary name, synced and renamed. An entry whose bytes do not match its hash counts as
// absent. What was not used for longest goes when the folder grows beyond its limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "evaluators/devices/binary.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

// The limit of the cache of one target. Kernels have 10 to 100 kB.
inline constexpr std::uintmax_t most_cached_bytes = std::uintmax_t{2} << 30;

class BinaryCache {  // safe for concurrent use by threads and processes
 public:
  // `suffix` is the suffix of the objects, such as ".so".
  BinaryCache(std::filesystem::path folder, std::string suffix, std::uintmax_t limit = most_cached_bytes)
      : folder_(std::move(folder)), suffix_(std::move(suffix)), limit_(limit) {}

  std::optional<Binary> find(const std::string& key) const;
  // Copies `object` into the cache and leaves the original. The result names the cached file.
  Expected<Binary> store(const std::string& key, const std::filesystem::path& object, Binary) const;
  // Notes that a cached file is used: find() does, and whoever opens a file that was found long ago.
  static void mark_used(const std::filesystem::path& object);

 private:
  void trim(const std::filesystem::path& newest) const;  // which stays

  std::filesystem::path folder_;
  std::string suffix_;
  std::uintmax_t limit_;
};

// The bytes of all files in a folder and its subfolders; 0 if there is none.
std::uintmax_t bytes_below(const std::filesystem::path& folder);

}  // namespace cultivar
