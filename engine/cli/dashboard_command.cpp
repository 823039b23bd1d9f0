// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/dashboard/server.hpp"
#include "engine/views/run_list.hpp"
#include "engine/views/suite_view.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

// The names and addresses under which others may ask this machine, in lower case.
std::vector<std::string> names_of_this_machine() {
  std::vector<std::string> names = rules_of_loopback().hosts;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) {
    std::string name(host.data());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    names.push_back(name);
    names.push_back(name + ".local");
    names.push_back(name.substr(0, name.find('.')));
  }
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return names;
  for (const ifaddrs* each = all; each; each = each->ifa_next) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (!each->ifa_addr) continue;
    const auto family = each->ifa_addr->sa_family;
    const void* const address =
        family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr)
        : family == AF_INET6
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr)
            : nullptr;
    if (address && ::inet_ntop(family, address, text.data(), text.size())) names.emplace_back(text.data());
  }
  ::freeifaddrs(all);
  return names;
}

std::string token_from(const std::string& file) {
  if (file.empty()) return fmt::format("{:016x}{:016x}", secret_seed(), secret_seed());
  std::string token = must(read_file(file));
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  constexpr std::size_t kLeast = 16;
  if (token.size() < kLeast ||
      token.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
          std::string::npos)
    throw InputError(
        fmt::format("{}: a token is one line of at least {} letters, digits, _ or -; for example from: "
                    "openssl rand -hex 16",
                    file, kLeast));
  return token;
}

}  // namespace

int dashboard_command(const Arguments& arguments) {
  std::vector<std::string> words, names;
  std::string host = "127.0.0.1", token_file;
  constexpr int kUsualPort = 8321;
  int port = -1;
  bool as_json = false, expected = false;
  Options options("dashboard",
                  "Shows runs as a page for a browser, live while their searches go on. It only reads their "
                  "records. Ctrl-C ends the dashboard, not the searches.",
                  "cultivar dashboard runs/quickstart");
  options.optional_arguments(
      "RUN", words,
      "runs, by folder or by name under runs/, and folders of runs (default: runs/ of the current folder)");
  options.option("--host", host,
                 "the IP address to listen on; with another one than of this machine's loopback, a token is "
                 "asked for (0.0.0.0: all)");
  options.option("--port", port,
                 fmt::format("the port to listen on; 0: any that is free; omitted: {}, or any if it is taken",
                             kUsualPort));
  options.each("--name", names,
               "another name of this machine under which browsers ask, for example that of a proxy");
  options.option(
      "--token-file", token_file,
      "a file with the token to ask for, also on the loopback; without it a token is made anew each time");
  options.flag("--expect", expected, "also accept the folders of runs that have no record yet");
  options.flag("--json", as_json, "print the address as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;
  constexpr int kPorts = 65535;
  const bool usual = port == -1;
  if (usual) port = kUsualPort;
  if (port < 0 || port > kPorts)
    throw InputError(fmt::format("--port {} is not a port: give one from 0 to {}", port, kPorts));

  const Output output(as_json);
  std::vector<fs::path> runs, folders;
  if (words.empty()) words.emplace_back("runs");
  for (const std::string& word : words) {
    std::error_code none;
    if (fs::is_directory(word, none) && !is_run(word) && (is_suite(word) || !runs_below(word).empty()))
      folders.push_back(fs::canonical(word));
    else if (expected && !fs::is_regular_file(word, none))  // a record itself is there
      runs.push_back(fs::weakly_canonical(fs::absolute(word)));
    else
      runs.push_back(fs::canonical(find_run(find_installation(), word)));
  }
  if (in6_addr address{}; host != "localhost" && ::inet_pton(AF_INET, host.c_str(), &address) != 1 &&
                          ::inet_pton(AF_INET6, host.c_str(), &address) != 1)
    throw InputError(fmt::format(
        "--host {} is not an IP address: give one of this machine, for example 127.0.0.1 or 0.0.0.0", host));
  const bool local = is_loopback(host);
  DashboardServer::Options server{host == "localhost" ? "127.0.0.1" : host, static_cast<unsigned short>(port),
                                  rules_of_loopback()};
  if (!local) server.rules.hosts = names_of_this_machine();
  for (const std::string& name : names) server.rules.hosts.push_back(name);
  if (!local || !token_file.empty()) server.rules.token = token_from(token_file);
  Dashboard dashboard(runs, folders);
  auto listening = DashboardServer::listen(server, dashboard);
  if (!listening && usual) {  // another dashboard, as a rule
    output.line(
        fmt::format("Port {} is taken, by another dashboard perhaps: another one is used.", kUsualPort));
    server.port = 0;
    listening = DashboardServer::listen(server, dashboard);
  }
  const std::unique_ptr<DashboardServer> open = must(std::move(listening));
  std::array<char, 256> own{};
  (void)::gethostname(own.data(), own.size() - 1);
  const std::string shown = host == "0.0.0.0" || host == "::" ? std::string(own.data()) : server.address;
  const std::string url =
      fmt::format("http://{}:{}/{}", shown.find(':') == std::string::npos ? shown : "[" + shown + "]",
                  open->port(), server.rules.token.empty() ? "" : "?token=" + server.rules.token);
  output.facts({{"url", url}, {"port", open->port()}});
  std::fflush(stdout);
  output.line(fmt::format("The dashboard is at {}\nCtrl-C ends it; searches go on.", url));
  if (!local)
    output.line(
        "It is not encrypted: whoever can read this network's traffic sees the token. Prefer: ssh -L " +
        fmt::format("{0}:127.0.0.1:{0} THIS_MACHINE", open->port()));
  std::fflush(output.text());
  constexpr int kBehindSearches = 10;
  (void)!::nice(kBehindSearches);
  open->serve(interrupted());
  return 0;
}

}  // namespace cultivar
