// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/compiler.hpp"

#include <fmt/format.h>

#include <unistd.h>
#include <atomic>
#include <chrono>

#include "evaluators/system/files.hpp"

namespace cultivar {

namespace fs = std::filesystem;

CompileFolder::CompileFolder(const fs::path& parent) {
  static std::atomic<unsigned> serial{0};
  path_ = parent / fmt::format("{}.{}.{}", ::getpid(), serial++,
                               std::chrono::steady_clock::now().time_since_epoch().count());
  std::error_code error;
  fs::create_directories(out(), error);
}

CompileFolder::~CompileFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string why_unwritable(const fs::path& folder) {
  // More than a compiler writes for a usual kernel.
  constexpr std::uintmax_t kRoom = std::uintmax_t{4} << 20;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return fmt::format("{}: {}", folder.string(), error.message());
  if (space.available < kRoom)
    return fmt::format("{}: the disk is full, {} KiB are free", folder.string(), space.available >> 10);
  const fs::path probe = folder / "probe";
  const auto written = write_atomically(probe, std::string(1 << 16, '.'));
  fs::remove(probe, error);
  return written ? std::string() : written.error().message;
}

void remove_leftovers(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const auto written = fs::last_write_time(entry.path(), error);
    if (!error && fs::file_time_type::clock::now() - written > std::chrono::hours(1))
      fs::remove_all(entry.path(), error);
  }
}

}  // namespace cultivar
