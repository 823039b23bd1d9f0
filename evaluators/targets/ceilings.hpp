// The most that a device was seen to do.
#pragma once

namespace cultivar {

struct Ceilings {
  double flops = 0.0;             // per second, the most this device was seen to do
  double bytes_per_second = 0.0;  // from memory beyond the last cache, read + write
  double cached_bytes_per_second = 0.0;
  double handshake_s = 0.0;  // an empty kernel
};

}  // namespace cultivar
