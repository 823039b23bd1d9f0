// An MCP server over two descriptors, one message a line.
#pragma once

#include <atomic>

#include "engine/mcp/server.hpp"

namespace cultivar {

enum class McpEnd {
  closed,  // the client closed its side, or went away
  stopped  // `stop` was set
};

// Serves until the client closes its side or `stop` is set, which is looked at four times a second; calls in
// flight are stopped then, and answer what they can. SIGPIPE must be ignored. `give_up` is called when one of
// them has not come back ten seconds later: it must end the process.
McpEnd serve_mcp(McpOffer, int in, int out, const std::atomic<bool>& stop,
                 const std::function<void()>& give_up);

}  // namespace cultivar
