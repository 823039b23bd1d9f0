// A search in a process of its own, to be killed at will; what its work returns is told through a file.
// For tests with Boost.Test.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <functional>
#include <string>

#include "engine/search.hpp"

namespace cultivar::testing {

// Runs `work` in a fresh process, which has never had threads; what it returns, or its exception's words, are
// written to `told`.
pid_t in_child(const std::filesystem::path& told, const std::function<std::string()>& work);

// The status it ended with; killed, and an error of the test, when that takes over a minute.
int wait_for(pid_t);

// kill -9; false if it had ended before.
bool killed(pid_t);

// Why the search ended, or "error: ..."; "agrees" or the first difference.
std::string told_by(const Expected<Outcome>&);
std::string told_by(const Expected<ReplayReport>&);

}  // namespace cultivar::testing
