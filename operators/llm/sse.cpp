// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/sse.hpp"

namespace cultivar {

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

}  // namespace cultivar
