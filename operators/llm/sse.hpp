// SPDX-License-Identifier: Apache-2.0
// Parses server-sent events from bytes that arrive in pieces of any size (WHATWG rules: lines end with LF, CR
// or CRLF; a blank line ends an event; a leading byte order mark is skipped).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace cultivar {

struct SseEvent {
  std::string name;  // the "event:" field; may be empty
  std::string data;  // the "data:" lines, joined by line feeds
};

class SseReader {
 public:
  explicit SseReader(std::size_t event_limit) : limit_(event_limit) {}

  // Calls `event` for each complete event. False: a line or an event exceeded the limit, or `event` returned
  // false; then the reader must not be used again.
  bool feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& event);
  // After the last byte: the event that the stream began and did not end with a blank line, if any.
  void end(const std::function<bool(const SseEvent&)>& event);
  bool too_large() const { return too_large_; }

 private:
  bool line_ends(const std::function<bool(const SseEvent&)>& event);

  std::size_t limit_;
  std::string line_;
  SseEvent event_;
  bool after_cr_ = false, has_data_ = false, begun_ = false, too_large_ = false;
};

// Characters that a server cut in two: tokens end inside a character, and some servers send each half in an
// event of its own, as one half of a surrogate pair ("\ud83d") or as bytes that are not UTF-8 alone. JSON
// holds neither, so the bytes of a half are kept as private characters until the pieces are joined.

// As foreign_json(), and also reads text with halves of characters.
nlohmann::json json_with_cut_characters(std::string_view text);

// The text with its halves put together. A half that is alone becomes U+FFFD.
std::string whole_characters(std::string text);
void make_characters_whole(nlohmann::json&);  // in all its strings

}  // namespace cultivar
