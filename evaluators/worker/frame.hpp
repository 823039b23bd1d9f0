// The protocol's frames: ASCII decimal length, '\n', that many bytes of JSON, '\n'. Both ends are bounded: a
// frame of more than 64 MiB, a length that is no number or JSON that does not parse is an error, and the
// stream is then unusable.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "evaluators/error.hpp"

namespace cultivar {

inline constexpr int protocol_version = 2;
inline constexpr std::size_t frame_limit = std::size_t{64} << 20;

struct FrameTrouble {
  enum class Kind {
    closed,     // the other end is gone: nothing more, or only a part of a frame, will come
    timed_out,  // the deadline passed; the stream may be in the middle of a frame
    garbage,    // what came is no frame
    too_big,
    system  // poll, read or write failed
  } kind = Kind::closed;
  std::string message;
};
Error to_error(const FrameTrouble&, std::string stage);

// One end of a conversation. Borrows its descriptors. Not thread-safe, but one thread may read while another
// writes.
class FrameStream {
 public:
  using Clock = std::chrono::steady_clock;
  FrameStream(int input, int output) : input_(input), output_(output) {}

  tl::expected<nlohmann::json, FrameTrouble> read(Clock::time_point deadline);
  tl::expected<void, FrameTrouble> write(const nlohmann::json& message, Clock::time_point deadline);

 private:
  tl::expected<void, FrameTrouble> fill(Clock::time_point deadline);  // at least one more byte into pending_

  int input_, output_;
  std::string pending_;  // read, not yet part of a returned frame; at most a frame and one read long
};

// For a worker's main: takes stdin and stdout for frames and points descriptor 0 to /dev/null and descriptor
// 1 to stderr, so that no stray print of a library can get between the frames.
FrameStream frames_over_stdio();

// The first frame a worker sends: {"cultivar": version, "worker": name}.
nlohmann::json hello(std::string_view worker);
// An Error tells which side is the older one.
Expected<void> check_hello(const nlohmann::json&, std::string_view worker);

}  // namespace cultivar
