// SPDX-License-Identifier: Apache-2.0
// Frames, in which processes exchange JSON over pipes: decimal length in ASCII, '\n', that many bytes of
// JSON, '\n'. Both ends are bounded. A frame of more than 64 MiB, a length that is not a number, and JSON
// that does not parse are errors, after which the stream is unusable.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

inline constexpr std::size_t frame_limit = std::size_t{64} << 20;

struct FrameTrouble {
  enum class Kind {
    closed,     // the other end closed the stream, possibly in the middle of a frame
    timed_out,  // the deadline passed; the stream may be in the middle of a frame
    garbage,    // the data is not a frame
    too_big,
    system  // poll, read or write failed
  } kind = Kind::closed;
  std::string message;
};

// One end of a connection. Borrows its descriptors. Not thread-safe, but one thread may read while another
// writes.
class FrameStream {
 public:
  FrameStream(int input, int output) : input_(input), output_(output) {}

  tl::expected<nlohmann::json, FrameTrouble> read(Clock::time_point deadline);
  bool waiting() const;  // a read would find data, or the end of the stream, at once
  tl::expected<void, FrameTrouble> write(const nlohmann::json& message, Clock::time_point deadline);

 private:
  tl::expected<void, FrameTrouble> fill(
      Clock::time_point deadline);  // reads at least one more byte into pending_

  int input_, output_;
  std::string pending_;  // data read but not yet returned; at most one frame and one read long
};

// For a main program: uses stdin and stdout for frames, and redirects descriptor 0 to /dev/null and
// descriptor 1 to stderr, so that output of a library cannot get between the frames.
FrameStream frames_over_stdio();

}  // namespace cultivar
