// SPDX-License-Identifier: Apache-2.0
// Maps instructions of a cubin to source lines, using the line table that NVRTC writes with
// --generate-line-info (DWARF 2, with NVIDIA's records of inlined calls). Needs no GPU, driver or toolkit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/devices/instruments.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

class LineTable {
 public:
  // Checks every offset in the file; an Error says what is wrong with it.
  static Expected<LineTable> read(std::span<const std::byte> cubin);

  // The line of the instruction at `offset` of a function, followed by the lines from which it was inlined,
  // innermost first. Empty if unknown.
  std::vector<SourceLine> at(std::string_view function, std::uint64_t offset) const;
  // Notes these lines in every sample.
  void add_to(PcSamples&) const;
  // The offsets at which instructions of `line` begin, ascending (for tests and views).
  std::vector<std::uint64_t> offsets_of(std::string_view function, std::string_view file, int line) const;

 private:
  struct Row {
    std::uint64_t offset = 0;
    std::uint32_t file = 0, line = 0;
    std::uint32_t caller = 0;  // 1 + index of the calling row in the same sequence; 0 if not inlined
    bool end = false;
  };
  struct Reader;
  const Row* row_at(const std::vector<Row>&, std::uint64_t offset) const;
  SourceLine line_of(const Row&) const;

  std::vector<std::string> files_;
  std::map<std::string, std::vector<Row>, std::less<>> rows_;  // by function, in file order
};

}  // namespace cultivar
