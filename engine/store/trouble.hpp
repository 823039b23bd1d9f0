// SPDX-License-Identifier: Apache-2.0
// Converts errors of SQLite and the file system to messages with a remedy.
#pragma once

#include <SQLiteCpp/Exception.h>
#include <filesystem>

#include "evaluators/system/error.hpp"

namespace cultivar {

Error trouble(const SQLite::Exception&, std::string doing, const std::filesystem::path& file);
std::string remedy_of_damage(const std::filesystem::path& run_folder);  // what helps, if anything is there
bool means_damage(const SQLite::Exception&);  // the file is not a database, or is damaged

}  // namespace cultivar
