// SPDX-License-Identifier: Apache-2.0
// For benchmarks of the cost of calls on this side only: the server of a language model in another process.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "support/chat_server.hpp"

namespace cultivar::testing {

// CPU time of this process so far, in seconds.
inline double cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class DistantServer {
 public:
  // Call this before any thread is started.
  explicit DistantServer(ChatServer::Script script) {
    int ends[2];
    if (::pipe(ends) != 0 || (process_ = ::fork()) < 0) throw std::runtime_error("no process for the server");
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ChatServer server(std::move(script));
      const int port = server.port();
      if (::write(ends[1], &port, sizeof port) != sizeof port) ::_exit(1);
      for (;;) ::pause();
    }
    if (::read(ends[0], &port_, sizeof port_) != sizeof port_) throw std::runtime_error("no server");
  }
  DistantServer(const DistantServer&) = delete;
  ~DistantServer() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  int port() const { return port_; }

 private:
  pid_t process_ = -1;
  int port_ = 0;
};

}  // namespace cultivar::testing
