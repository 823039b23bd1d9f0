// SPDX-License-Identifier: Apache-2.0
// A search in a separate process that a test can kill at any time; its result is reported through a file. For
// tests with Boost.Test.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/search/search.hpp"

namespace cultivar::testing {

// Runs `work` in a new process that has never had threads; writes its result, or the message of its
// exception, to `told`.
pid_t in_child(const std::filesystem::path& told, const std::function<std::string()>& work);

// The status as waitpid gives it; nullopt while the process runs. Once only: the process is reaped.
std::optional<int> ended(pid_t);
std::string status_text(int status);  // "ended with code 1", "ended by signal 9"

// The status. If the process takes longer than that, it is killed and the test fails with the words of
// `story`.
int wait_for(pid_t, double most_s = 60.0, const std::function<std::string()>& story = {});

// kill -9; false if the process had already ended.
bool killed(pid_t);

// The number after `--` on the test program's command line, for the long form of a test.
int number_given(int otherwise);

// Why the search ended, or "error: ..."; "agrees" or the first difference.
std::string told_by(const Expected<Outcome>&);
std::string told_by(const Expected<ReplayReport>&);

}  // namespace cultivar::testing
