// SPDX-License-Identifier: Apache-2.0
#include "engine/dashboard/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>

namespace cultivar {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

namespace {

constexpr std::size_t kMostConnections = 256, kMostOfPeer = 128;
constexpr std::uint32_t kMostHeader = 16 << 10;
constexpr std::chrono::seconds kIdle{30},
    kHead{10};                                    // kHead: from the first byte of a request to its whole head
constexpr std::chrono::milliseconds kLook{1000};  // how often a run is looked at for news
constexpr int kBeat = 15;  // looks without news after which a stream says that it lives

std::string text_of(const http::fields& fields, http::field name) {
  const auto value = fields[name];
  return {value.data(), value.size()};
}

PageRequest request_of(const http::request<http::empty_body>& r) {
  const auto method = r.method_string(), target = r.target();
  constexpr const char* kSite = "Sec-Fetch-Site";
  const auto site = r[kSite];
  const bool repeated = r.count(http::field::host) > 1 || r.count(http::field::origin) > 1 ||
                        r.count(http::field::authorization) > 1 || r.count(kSite) > 1;
  return {{method.data(), method.size()},
          {target.data(), target.size()},
          text_of(r, http::field::host),
          text_of(r, http::field::origin),
          {site.data(), site.size()},
          text_of(r, http::field::cookie),
          text_of(r, http::field::authorization),
          repeated};
}

void set_headers(http::fields& fields, const PageResponse& response) {
  for (const auto& [name, value] : security_headers()) fields.set(name, value);
  for (const auto& [name, value] : response.headers) fields.set(name, value);
  fields.set(http::field::content_type, response.type);
}

struct Connection {
  beast::tcp_stream* stream = nullptr;  // in the frame of serve(), as long as it is listed
  asio::ip::address peer;
  enum class Doing { waiting, streaming, answering } doing = Doing::waiting;  // waiting: for a whole request
};

}  // namespace

struct DashboardServer::State {
  Options options;
  Dashboard& dashboard;
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  std::list<Connection> connections;  // those that wait: the one that has waited longest first

  State(Options chosen, Dashboard& shown) : options(std::move(chosen)), dashboard(shown) {}
  asio::awaitable<void> accept();
  bool make_room(const asio::ip::address& peer);
  asio::awaitable<void> serve(tcp::socket, asio::ip::address peer);
  asio::awaitable<void> converse(std::list<Connection>::iterator);
  asio::awaitable<void> tell_news(beast::tcp_stream&, PageResponse);
  asio::awaitable<void> watch(const std::atomic<bool>& stop);
};

asio::awaitable<void> DashboardServer::State::accept() {
  for (;;) {
    boost::system::error_code failed;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, failed));
    if (failed == asio::error::operation_aborted) co_return;
    if (failed) {  // too many open files, for example: not at once again
      asio::steady_timer pause(context, std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::use_awaitable);
      continue;
    }
    const auto peer = socket.remote_endpoint(failed).address();
    if (failed) continue;  // it has gone already
    if (!make_room(peer)) continue;
    asio::co_spawn(context, serve(std::move(socket), peer), asio::detached);
  }
}

// Nobody keeps others out by connections that are silent, or by many: the one that has waited longest for a
// request is closed, or else the oldest stream of events, whose page opens another. false: all are at work.
bool DashboardServer::State::make_room(const asio::ip::address& peer) {
  const auto open = [](const Connection& each) { return each.stream->socket().is_open(); };
  const auto own = [&](const Connection& each) { return open(each) && each.peer == peer; };
  const bool many = static_cast<std::size_t>(std::ranges::count_if(connections, own)) >= kMostOfPeer;
  if (!many && connections.size() < kMostConnections) return true;
  for (const auto doing : {Connection::Doing::waiting, Connection::Doing::streaming})
    for (Connection& each : connections)
      if (each.doing == doing && (many ? own(each) : open(each))) {
        each.stream->close();  // its coroutine ends soon
        return connections.size() < 2 * kMostConnections;
      }
  return false;
}

asio::awaitable<void> DashboardServer::State::serve(tcp::socket socket, asio::ip::address peer) {
  beast::tcp_stream stream(std::move(socket));
  const auto connection = connections.insert(connections.end(), {&stream, std::move(peer)});
  try {
    co_await converse(connection);
  } catch (const std::exception&) {  // the client has gone, or said what is no HTTP
  }
  connections.erase(connection);
}

asio::awaitable<void> DashboardServer::State::converse(std::list<Connection>::iterator connection) {
  beast::tcp_stream& stream = *connection->stream;
  beast::flat_buffer buffer(2 * kMostHeader);
  for (bool more = true; more;) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(kMostHeader);
    connection->doing = Connection::Doing::waiting;
    connections.splice(connections.end(), connections, connection);
    if (buffer.size() == 0) {
      stream.expires_after(kIdle);
      buffer.commit(co_await stream.async_read_some(buffer.prepare(4096), asio::use_awaitable));
    }
    stream.expires_after(kHead);
    co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
    connection->doing = Connection::Doing::answering;
    const bool whole = parser.is_done();  // otherwise it has a body, which nothing here reads
    const http::request<http::empty_body> request = parser.release();
    const PageRequest asked = request_of(request);
    const auto refused = refusal(asked, options.rules);
    PageResponse answer = refused ? *refused : dashboard.answer(asked);
    if (answer.type == "text/event-stream") {
      connection->doing = Connection::Doing::streaming;
      co_await tell_news(stream, std::move(answer));
      co_return;
    }
    http::response<http::string_body> response(static_cast<http::status>(answer.status), request.version());
    set_headers(response, answer);
    response.keep_alive(request.keep_alive() && !refused && whole);
    more = response.keep_alive();
    const std::size_t size = answer.body.size();
    if (asked.method != "HEAD") response.body() = std::move(answer.body);
    response.content_length(size);
    stream.expires_after(kIdle);
    if (asked.method == "HEAD") {
      http::response_serializer<http::string_body> head(response);
      co_await http::async_write_header(stream, head, asio::use_awaitable);
    } else {
      co_await http::async_write(stream, response, asio::use_awaitable);
    }
  }
  boost::system::error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
}

asio::awaitable<void> DashboardServer::State::tell_news(beast::tcp_stream& stream, PageResponse answer) {
  http::response<http::empty_body> head(http::status::ok, 11);
  set_headers(head, answer);
  head.keep_alive(false);
  http::response_serializer<http::empty_body> serializer(head);
  stream.expires_after(kIdle);
  co_await http::async_write_header(stream, serializer, asio::use_awaitable);
  asio::steady_timer timer(context);
  std::string told;
  int quiet = 0;
  while (stream.socket().is_open()) {
    const std::string revision = dashboard.revision(answer.events_of);
    std::string text;
    if (revision != told)
      text = fmt::format("event: news\ndata: {}\n\n", revision);
    else if (++quiet >= kBeat)
      text = "event: beat\ndata: 0\n\n";
    if (!text.empty()) {
      told = revision;
      quiet = 0;
      stream.expires_after(kIdle);
      co_await asio::async_write(stream, asio::buffer(text), asio::use_awaitable);
    }
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<void> DashboardServer::State::watch(const std::atomic<bool>& stop) {
  asio::steady_timer timer(context);
  while (!stop) {
    timer.expires_after(std::chrono::milliseconds(100));
    co_await timer.async_wait(asio::use_awaitable);
  }
  context.stop();
}

DashboardServer::DashboardServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
DashboardServer::~DashboardServer() = default;

Expected<std::unique_ptr<DashboardServer>> DashboardServer::listen(Options options, Dashboard& dashboard) {
  auto state = std::make_unique<State>(std::move(options), dashboard);
  boost::system::error_code failed;
  const auto address = asio::ip::make_address(state->options.address, failed);
  if (failed)
    return failure(
        "dashboard",
        fmt::format("'{}' is not an IP address: give one of this machine, for example 127.0.0.1 or 0.0.0.0",
                    state->options.address));
  const tcp::endpoint endpoint(address, state->options.port);
  tcp::acceptor& acceptor = state->acceptor;
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed)
    return failure("dashboard",
                   fmt::format("cannot listen on {} port {}: {}; choose another one with --host and --port",
                               state->options.address, state->options.port, failed.message()));
  return std::unique_ptr<DashboardServer>(new DashboardServer(std::move(state)));
}

unsigned short DashboardServer::port() const {
  return state_->acceptor.local_endpoint().port();
}

void DashboardServer::serve(const std::atomic<bool>& stop) {
  asio::co_spawn(state_->context, state_->accept(), asio::detached);
  asio::co_spawn(state_->context, state_->watch(stop), asio::detached);
  state_->context.run();
}

}  // namespace cultivar
