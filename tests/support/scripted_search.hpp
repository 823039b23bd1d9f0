// SPDX-License-Identifier: Apache-2.0
// A search with the simulated evaluator, in which a local server is the language model.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "support/chat_server.hpp"
#include "support/simulated_evaluator.hpp"

namespace cultivar::testing {

Runtime simulated_runtime(const Simulation&);

// The last and the first message of a Chat Completions request.
std::string last_said(const SeenRequest&);
std::string first_said(const SeenRequest&);

// The X of "name: X" in the first manifest of a prompt.
std::string kernel_named_in(const std::string& prompt);
// An edit that renames the kernel; if the name contains "fast", the simulated device runs it faster.
std::string renaming(const std::string& from, const std::string& to,
                     const std::string& idea = "another name");

// The configuration of softmax_config() with model `m` at this address; overrides set operators and more.
std::vector<std::string> with_model(const std::string& url, const std::string& operators,
                                    std::vector<std::string> more = {});

}  // namespace cultivar::testing
