// SPDX-License-Identifier: Apache-2.0
#include "engine/dashboard/requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace cultivar {

namespace {

constexpr std::size_t kLongestTarget = 4096;

// Without telling by its time where they differ.
bool same(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(i < b.size() ? b[i] : '\0');
  return different == 0U;
}

// "[::1]:8080" -> "::1", "localhost:8080" -> "localhost", in lower case; empty if it is neither.
std::string host_name(std::string_view host) {
  std::string name;
  std::string_view rest;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(1, end - 1);
    rest = host.substr(end + 1);
  } else {
    const std::size_t colon = host.find(':');
    name = host.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : host.substr(colon);
  }
  const bool port =
      rest.empty() || (rest.size() > 1 && rest.front() == ':' &&
                       std::ranges::all_of(rest.substr(1), [](unsigned char c) { return std::isdigit(c); }));
  if (!port) return {};
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.ends_with('.')) name.pop_back();
  return name;
}

// A browser sends a host's cookies to all of its ports: each dashboard of a machine has its own, named by the
// port that the browser asked.
std::string cookie_of(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  return port ? fmt::format("cultivar_token_{}", host.substr(colon + 1)) : "cultivar_token";
}

std::string cookie_value(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    const std::size_t end = std::min(cookies.find(';'), cookies.size());
    std::string_view one = cookies.substr(0, end);
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.starts_with(name) && one.substr(name.size()).starts_with('='))
      return std::string(one.substr(name.size() + 1));
  }
  return {};
}

std::optional<std::string> decoded(std::string_view text, bool plus) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus) {
      result += ' ';
    } else if (text[i] != '%') {
      result += text[i];
    } else {
      unsigned value = 0;
      if (i + 2 >= text.size()) return std::nullopt;
      const char* const from = text.data() + i + 1;
      const auto [end, failed] = std::from_chars(from, from + 2, value, 16);
      if (failed != std::errc() || end != from + 2) return std::nullopt;
      result += static_cast<char>(value);
      i += 2;
    }
  }
  return result;
}

}  // namespace

PageResponse said(int status, const std::string& words) {
  PageResponse response;
  response.status = status;
  response.body = words + "\n";
  return response;
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

AccessRules rules_of_loopback() {
  return {{"127.0.0.1", "localhost", "::1"}, ""};
}

std::optional<PageResponse> refusal(const PageRequest& request, const AccessRules& rules) {
  if (request.method != "GET" && request.method != "HEAD") {
    PageResponse response = said(405, "The dashboard only reads: use GET.");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  if (request.repeated) return said(400, "The request has a header twice of which there may be one.");
  const std::string host = host_name(request.host);
  if (host.empty() || std::ranges::find(rules.hosts, host) == rules.hosts.end())
    return said(
        421, "This server does not answer to that name: open the address that `cultivar dashboard` printed.");
  const auto target = parsed_target(request.target);
  if (!target) return said(400, "The address is malformed.");
  const bool page = target->path == "/";
  const bool foreign =
      !request.fetch_site.empty() && request.fetch_site != "same-origin" && request.fetch_site != "none";
  if (foreign && !page) return said(403, "Another site asked for this; only the dashboard's own page may.");
  if (!request.origin.empty()) {
    const std::size_t scheme = request.origin.find("://");
    if (scheme == std::string::npos || request.origin.substr(scheme + 3) != request.host)
      return said(403, "Another site asked for this; only the dashboard's own page may.");
  }
  if (rules.token.empty()) return std::nullopt;
  const std::string asked = target->value("token"), cookie = cookie_of(request.host);
  if (page && !asked.empty()) {
    if (!same(rules.token, asked))
      return said(401, "The token is wrong: open the address that `cultivar dashboard` printed.");
    PageResponse response = said(303, "The token is right.");
    response.headers.emplace_back("Location", "/");
    response.headers.emplace_back(
        "Set-Cookie",
        fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000", cookie, rules.token));
    return response;
  }
  constexpr std::string_view kBearer = "Bearer ";
  const bool bearer = request.authorization.starts_with(kBearer) &&
                      same(rules.token, std::string_view(request.authorization).substr(kBearer.size()));
  if (bearer || same(rules.token, cookie_value(request.cookie, cookie))) return std::nullopt;
  return said(401, "A token is needed: open the address that `cultivar dashboard` printed.");
}

std::vector<std::pair<std::string, std::string>> security_headers() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
          {"Cache-Control", "no-store"}};
}

std::string PageTarget::value(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::string() : found->second;
}

std::size_t PageTarget::number(const std::string& name, std::size_t otherwise, std::size_t most) const {
  const std::string text = value(name);
  std::size_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size() ? std::min(number, most) : otherwise;
}

std::optional<PageTarget> parsed_target(std::string_view text) {
  if (text.size() > kLongestTarget || !text.starts_with('/')) return std::nullopt;
  const std::size_t mark = std::min(text.find('?'), text.size());
  PageTarget target;
  target.path = text.substr(0, mark);
  const bool plain = std::ranges::all_of(
      target.path, [](unsigned char c) { return std::isalnum(c) || c == '/' || c == '.' || c == '_'; });
  if (!plain || target.path.find("..") != std::string::npos || target.path.find("//") != std::string::npos)
    return std::nullopt;
  std::string_view rest = text.substr(std::min(mark + 1, text.size()));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t equals = std::min(one.find('='), one.size());
    const auto name = decoded(one.substr(0, equals), true),
               value = decoded(one.substr(std::min(equals + 1, one.size())), true);
    if (!name || !value) return std::nullopt;
    target.values.emplace(*name, *value);
  }
  return target;
}

}  // namespace cultivar
