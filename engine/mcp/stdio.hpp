// SPDX-License-Identifier: Apache-2.0
// An MCP server over two file descriptors, one message per line.
#pragma once

#include <atomic>

#include "engine/mcp/server.hpp"

namespace cultivar {

enum class McpEnd {
  closed,  // the client closed its side or exited
  stopped  // `stop` was set
};

// Serves until the client closes its side or `stop` is set, which is polled four times a second; then calls
// in progress are stopped and send what they have. SIGPIPE must be ignored. `give_up` is called when a call
// has not returned ten seconds later: it must end the process.
McpEnd serve_mcp(McpOffer, int in, int out, const std::atomic<bool>& stop,
                 const std::function<void()>& give_up);

}  // namespace cultivar
