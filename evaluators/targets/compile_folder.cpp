#include "evaluators/targets/compile_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

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

void remove_leftovers(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const auto written = fs::last_write_time(entry.path(), error);
    if (!error && fs::file_time_type::clock::now() - written > std::chrono::hours(1))
      fs::remove_all(entry.path(), error);
  }
}

}  // namespace cultivar
