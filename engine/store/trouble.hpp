// What SQLite and the file system report, in words that say what to do.
#pragma once

#include <SQLiteCpp/Exception.h>
#include <filesystem>

#include "evaluators/error.hpp"

namespace cultivar {

Error trouble(const SQLite::Exception&, std::string stage, const std::filesystem::path& file);
bool means_damage(const SQLite::Exception&);  // the file is not a database, or not a whole one

}  // namespace cultivar
