// Which of the files in a task's folder belong to the task.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

namespace cultivar {

// reference.cpp and the files of its folder that it includes, also through each other. `read`: a file's text
// by its name; nullopt: there is none.
std::set<std::string> files_of_oracle(
    const std::function<std::optional<std::string>(const std::string&)>& read);

}  // namespace cultivar
