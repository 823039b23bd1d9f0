// A search over the simulated evaluator in which a local server is the language model.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/search.hpp"
#include "engine/store/record.hpp"
#include "support/chat_server.hpp"
#include "support/simulated_evaluator.hpp"

namespace cultivar::testing {

Surface simulated_surface(const Simulation&);

// What was said last, and what was said first, in a request of Chat Completions.
std::string last_said(const SeenRequest&);
std::string first_said(const SeenRequest&);

// "name: X" of the first manifest in a prompt.
std::string kernel_named_in(const std::string& prompt);
// An edit that gives the kernel another name; with "fast" in it the simulated device runs it faster.
std::string renaming(const std::string& from, const std::string& to,
                     const std::string& idea = "another name");

// The configuration of softmax_config() with model `m` at this address; operators and more by overrides.
std::vector<std::string> with_model(const std::string& url, const std::string& operators,
                                    std::vector<std::string> more = {});

}  // namespace cultivar::testing
