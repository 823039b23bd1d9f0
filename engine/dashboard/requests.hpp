// SPDX-License-Identifier: Apache-2.0
// Which requests to the dashboard are answered at all, and what every answer says to the browser. Knows no
// socket and no run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cultivar {

struct PageRequest {
  std::string method, target;  // target: as sent, "/api/state?run=quickstart"
  std::string host, origin, fetch_site, cookie, authorization;  // headers; empty: absent
  bool repeated = false;  // one of them, other than the cookie, stands there more than once
};

struct PageResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // besides those of security_headers()
  std::string events_of = {};  // of an endless stream of events: its run; empty: of all
};
PageResponse said(int status, const std::string& words);

// Who may read. `hosts`: the names of this server that a request may have in its Host header, without port: a
// page of another site that points its own name at this address has another one. `token`: empty: none is
// asked for.
struct AccessRules {
  std::vector<std::string> hosts;
  std::string token;
};
// On this machine only: its loopback names, no token.
AccessRules rules_of_loopback();
bool is_loopback(const std::string& address);

// What is said to a request that is refused; nullopt: it may be answered. A request for "/?token=..." with
// the right token is answered with a cookie and the page without the token in its address.
std::optional<PageResponse> refusal(const PageRequest&, const AccessRules&);

// No scripts, styles or connections but the page's own; never in a frame; nothing is kept or told to others.
std::vector<std::pair<std::string, std::string>> security_headers();

// The path and the values of a target; nullopt: it is malformed, too long, or names a path that no page has
// (%2f, "..").
struct PageTarget {
  std::string path;
  std::map<std::string, std::string> values;
  std::string value(const std::string& name) const;
  std::size_t number(const std::string& name, std::size_t otherwise, std::size_t most) const;
};
std::optional<PageTarget> parsed_target(std::string_view);

}  // namespace cultivar
