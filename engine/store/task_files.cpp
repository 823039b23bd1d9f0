#include "engine/store/task_files.hpp"

#include <sstream>
#include <utility>
#include <vector>

namespace cultivar {
namespace {

// "name" of the line `#include "name"`; empty: it is no such line. A file may be named as in "./name".
std::string included_by(const std::string& line) {
  std::size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return {};
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos || line.compare(at, 7, "include") != 0) return {};
  const std::size_t first = line.find('"', at), last = line.find('"', first + 1);
  if (first == std::string::npos || last == std::string::npos) return {};
  std::string name = line.substr(first + 1, last - first - 1);
  while (name.starts_with("./")) name.erase(0, 2);
  return name;
}

}  // namespace

std::set<std::string> files_of_oracle(
    const std::function<std::optional<std::string>(const std::string&)>& read) {
  std::set<std::string> found;
  std::vector<std::string> open{"reference.cpp"};
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (name.empty() || name.find('/') != std::string::npos || found.contains(name)) continue;
    const auto text = read(name);
    if (!text) continue;
    found.insert(name);
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) open.push_back(included_by(line));
  }
  return found;
}

}  // namespace cultivar
