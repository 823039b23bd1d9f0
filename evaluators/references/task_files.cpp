// SPDX-License-Identifier: Apache-2.0
#include "evaluators/references/task_files.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace cultivar {
namespace {

// "name" of the line `#include "name"`. A file may be named as in "./name".
std::vector<std::string> included_by(std::string line) {
  std::size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return {};
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos || line.compare(at, 7, "include") != 0) return {};
  const std::size_t first = line.find('"', at), last = line.find('"', first + 1);
  if (first == std::string::npos || last == std::string::npos) return {};
  std::string name = line.substr(first + 1, last - first - 1);
  while (name.starts_with("./")) name.erase(0, 2);
  return {name};
}

// The files of the modules of `import a, b as c` and `from a import b`, and those named in quotes
// ("model.py").
std::vector<std::string> imported_by(std::string line) {
  std::vector<std::string> files;
  constexpr std::string_view kEnd = ".py\"";
  for (std::size_t end = line.find(kEnd); end != std::string::npos; end = line.find(kEnd, end + 1))
    if (const std::size_t first = line.rfind('"', end); first != std::string::npos)
      files.push_back(line.substr(first + 1, end + 2 - first));
  std::replace(line.begin(), line.end(), ',', ' ');
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "from" && words >> word) files.push_back(word + ".py");
  if (word == "import")
    while (words >> word) files.push_back(word + ".py");
  return files;
}

// `first`, and all that its lines and those of what it needs name.
std::set<std::string> reached(const std::string& first, const ReadTaskFile& read,
                              std::vector<std::string> (*named_by)(std::string)) {
  std::set<std::string> found;
  std::vector<std::string> open{first};
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (name.empty() || name.find('/') != std::string::npos || found.contains(name)) continue;
    const auto text = read(name);
    if (!text) continue;
    found.insert(name);
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);)
      for (std::string& other : named_by(line)) open.push_back(std::move(other));
  }
  return found;
}

}  // namespace

bool is_in_python(const std::filesystem::path& reference) {
  return reference.extension() == ".py";
}

std::set<std::string> files_of_reference(const std::string& reference, const ReadTaskFile& read) {
  return reached(reference, read, is_in_python(reference) ? imported_by : included_by);
}

std::set<std::string> files_of_pytorch(const ReadTaskFile& read) {
  return reached("pytorch.py", read, imported_by);
}

}  // namespace cultivar
