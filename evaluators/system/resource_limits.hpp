// SPDX-License-Identifier: Apache-2.0
// The limits that whoever started this process has set for it (`ulimit`, setrlimit). Children inherit them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cultivar {

// `resource` is an RLIMIT_* constant. The limit in force; nullopt: none.
std::optional<std::size_t> limit_in_force(int resource);
// What a child gets that should have the limit `wanted`: the lower of both.
std::size_t within_limit_in_force(int resource, std::size_t wanted);
// The same for messages, with its origin: "4.0 GiB", or "3.8 GiB (ulimit -v)".
std::string limit_in_words(int resource, std::size_t wanted);

// The files that a search with a few workers has open at once.
inline constexpr std::size_t kNeededFiles = 128;
// Lets this process open as many files as the hard limit allows, at most 1024.
void raise_open_files();

// A limit that keeps Cultivar, or a part of it, from working.
struct TightLimit {
  std::string option;  // the shell's command: "ulimit -n"
  bool fatal = false;  // nothing works; otherwise something may fail
  std::string text;    // a sentence with the limit, its value, and what needs more
};
std::vector<TightLimit> tight_limits();

}  // namespace cultivar
