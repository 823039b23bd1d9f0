// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/sse.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <optional>

#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

bool SseReader::line_ends(const std::function<bool(const SseEvent&)>& event) {
  if (!begun_) {
    begun_ = true;
    if (line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);
  }
  if (line_.empty()) {
    bool go_on = true;
    if (has_data_) go_on = event(event_);
    event_ = {};
    has_data_ = false;
    return go_on;
  }
  const std::size_t colon = line_.find(':');
  const std::string_view field = std::string_view(line_).substr(0, colon);
  std::string_view value;
  if (colon != std::string::npos) {
    value = std::string_view(line_).substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
  }
  if (field == "data") {
    if (event_.data.size() + value.size() > limit_) {
      too_large_ = true;
      return false;
    }
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    event_.name = value;
  }  // a comment (empty field), id, retry, or an unknown field
  line_.clear();
  return true;
}

void SseReader::end(const std::function<bool(const SseEvent&)>& event) {
  if (too_large_) return;
  if (!line_.empty() && line_ends(event)) line_.clear();
  if (line_.empty() && has_data_) line_ends(event);
}

bool SseReader::feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& event) {
  while (!bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > limit_) {
      too_large_ = true;
      return false;
    }
    line_ += part;
    if (end == std::string_view::npos) return true;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (!line_ends(event)) return false;
    line_.clear();
  }
  return true;
}

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kMark = "\xF4\x8F";  // a byte from 0x80 is U+10F400 plus the byte
constexpr unsigned kMarkThird = 0x90, kMarkFourth = 0x80;

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
}

void add_mark(std::string& to, unsigned byte) {
  to += kMark;
  to += static_cast<char>(kMarkThird + (byte >> 6));
  to += static_cast<char>(kMarkFourth + (byte & 0x3F));
}

// The byte that a mark at this place stands for; 0: there is no mark.
unsigned marked_byte(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with(kMark)) return 0;
  const unsigned third = byte_at(text, at + 2), fourth = byte_at(text, at + 3);
  if ((third != kMarkThird + 2 && third != kMarkThird + 3) || (fourth & 0xC0) != kMarkFourth) return 0;
  return ((third - kMarkThird) << 6) + (fourth - kMarkFourth);
}

// The length of the UTF-8 character at this place, with surrogates and without longer forms than needed; 0:
// there is none.
std::size_t character_length(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at), second = byte_at(text, at + 1);
  const auto follows = [&](std::size_t n) { return (byte_at(text, at + n) & 0xC0) == 0x80; };
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first < 0xF0)
    return follows(1) && follows(2) && (first != 0xE0 || second >= 0xA0) ? 3 : 0;
  if (first < 0xF0 || first > 0xF4 || !follows(1) || !follows(2) || !follows(3)) return 0;
  return (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90) ? 0 : 4;
}

// 0xD800 to 0xDFFF in the three bytes that UTF-8 would have for it; 0: there is none.
unsigned surrogate_at(std::string_view text, std::size_t at) {
  if (byte_at(text, at) != 0xED || byte_at(text, at + 1) < 0xA0 || character_length(text, at) != 3) return 0;
  return 0xD000 + ((byte_at(text, at + 1) & 0x3F) << 6) + (byte_at(text, at + 2) & 0x3F);
}

bool is_high(unsigned unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low(unsigned unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

// The unit of an escape \uXXXX at this place; nullopt: there is none.
std::optional<unsigned> escaped_unit(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("\\u") || text.size() < at + 6) return std::nullopt;
  unsigned unit = 0;
  const char* const end = text.data() + at + 6;
  const auto [stop, code] = std::from_chars(text.data() + at + 2, end, unit, 16);
  return code == std::errc() && stop == end ? std::optional(unit) : std::nullopt;
}

std::string with_marks(std::string_view text) {
  std::string marked;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\\') {
      const unsigned unit = escaped_unit(text, at).value_or(0);
      const unsigned next = is_high(unit) ? escaped_unit(text, at + 6).value_or(0) : 0;
      if (is_low(unit) || (is_high(unit) && !is_low(next))) {
        for (const unsigned byte : {0xEDU, 0x80U + ((unit >> 6) & 0x3F), 0x80U + (unit & 0x3F)})
          add_mark(marked, byte);
        at += 6;
      } else {
        const std::size_t length = is_high(unit) ? 12 : 2;
        marked += text.substr(at, length);
        at += length;
      }
    } else if (const std::size_t length = surrogate_at(text, at) != 0 ? 0 : character_length(text, at)) {
      marked += text.substr(at, length);
      at += length;
    } else {
      add_mark(marked, byte_at(text, at++));
    }
  }
  return marked;
}

}  // namespace

json json_with_cut_characters(std::string_view text) {
  json value = foreign_json(text);
  return value.is_discarded() && !nests_too_deep(text) ? foreign_json(with_marks(text)) : value;
}

std::string whole_characters(std::string text) {
  if (text.find(kMark) == std::string::npos) return text;
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const unsigned byte = marked_byte(text, at);
    bytes += byte != 0 ? static_cast<char>(byte) : text[at];
    at += byte != 0 ? 4 : 1;
  }
  std::string whole;
  for (std::size_t at = 0; at < bytes.size();) {
    const unsigned unit = surrogate_at(bytes, at), next = surrogate_at(bytes, at + 3);
    const std::size_t length = character_length(bytes, at);
    if (is_high(unit) && is_low(next)) {
      const unsigned character = 0x10000 + ((unit - 0xD800) << 10) + (next - 0xDC00);
      for (const unsigned byte : {0xF0U + (character >> 18), 0x80U + ((character >> 12) & 0x3F),
                                  0x80U + ((character >> 6) & 0x3F), 0x80U + (character & 0x3F)})
        whole += static_cast<char>(byte);
      at += 6;
    } else if (unit != 0 || length == 0) {
      whole += kReplacement;
      at += unit != 0 ? 3 : 1;
    } else {
      whole += std::string_view(bytes).substr(at, length);
      at += length;
    }
  }
  return whole;
}

void make_characters_whole(json& value) {
  if (value.is_string()) {
    value = whole_characters(value.get<std::string>());
  } else if (value.is_structured()) {
    for (json& part : value) make_characters_whole(part);
  }
}

}  // namespace cultivar
