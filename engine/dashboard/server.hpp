// SPDX-License-Identifier: Apache-2.0
// Serves the dashboard over HTTP, on one thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "engine/dashboard/dashboard.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

class DashboardServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // of an interface of this machine: an IP address
    unsigned short port = 0;            // 0: any that is free
    AccessRules rules;
  };
  // Listens from here on. Fails if the address is not one of this machine, or the port is taken. The
  // dashboard outlives it.
  static Expected<std::unique_ptr<DashboardServer>> listen(Options, Dashboard&);
  ~DashboardServer();
  DashboardServer(const DashboardServer&) = delete;
  DashboardServer& operator=(const DashboardServer&) = delete;

  unsigned short port() const;
  // Returns soon after `stop` is set. At most 256 connections, 128 of one address: beyond that the oldest one
  // that waits for a request is closed. A client that sends or reads nothing for 30 s is left, and one whose
  // request has no end after 10 s.
  void serve(const std::atomic<bool>& stop);

 private:
  struct State;
  explicit DashboardServer(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
