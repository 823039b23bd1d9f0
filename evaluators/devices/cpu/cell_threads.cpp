// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/cell_threads.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace cultivar {

class CellThreads::Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& file)
      : number_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  // The letter after "pid (name) ". The cell sets its own name, which may hold any character but at most 15
  // bytes.
  char state() const {
    char text[128];
    const auto length = ::pread(number_, text, sizeof text, 0);
    if (length <= 0) return 'X';  // the thread has ended
    const std::string_view line(text, static_cast<std::size_t>(length));
    const auto end_of_name = line.rfind(") ");
    return end_of_name == std::string_view::npos || end_of_name + 2 >= line.size() ? 'R'
                                                                                   : line[end_of_name + 2];
  }

 private:
  int number_;
};

CellThreads::CellThreads(int pid) {
  std::error_code gone;
  const auto folder = std::filesystem::path("/proc") / std::to_string(pid) / "task";
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone))
    states_.push_back(std::make_shared<const Descriptor>(entry.path() / "stat"));
}

bool CellThreads::asleep() const {
  return std::none_of(states_.begin(), states_.end(), [](const auto& thread) {
    const char state = thread->state();
    return state == 'R' || state == 'D';
  });
}

}  // namespace cultivar
