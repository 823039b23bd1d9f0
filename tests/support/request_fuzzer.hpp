// SPDX-License-Identifier: Apache-2.0
// Requests to the dashboard that are changed at random, and what no answer to them may be.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "engine/dashboard/dashboard.hpp"

namespace cultivar::testing {

// Asks for runs named "run"; about half of the requests are nearly right.
class RequestFuzzer {
 public:
  // `token`: of the dashboard; empty: it asks for none.
  RequestFuzzer(std::uint64_t seed, std::string token) : random_(seed), token_(std::move(token)) {}

  PageRequest request();  // as the server gives it to the handlers
  std::string bytes();    // as a client sends it

 private:
  std::size_t any(std::size_t below);
  std::string target();
  void change(std::string& text);

  std::mt19937_64 random_;
  std::string token_;
};

struct Answered {
  std::string wrong;  // what is wrong with the answer; empty: nothing
  int status = 0;
};
// Asks as the server does. Wrong is an exception, a view for who may not read, an unknown status, a view that
// is not JSON in UTF-8 or has more than 4 MB, a header that could end early, a path of this machine.
Answered answered(Dashboard&, const PageRequest&, const AccessRules&);

// What a server on this machine says to these bytes, up to 64 KiB, waiting at most `patience_s` for each
// part.
std::string said_to(unsigned short port, const std::string& bytes, double patience_s = 0.2);

}  // namespace cultivar::testing
