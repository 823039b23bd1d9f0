// Which line of the source an instruction of a cubin came from, by the line table that NVRTC writes with
// --generate-line-info (DWARF 2, with NVIDIA's record of inlined calls). Needs no GPU, driver or toolkit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/error.hpp"

namespace cultivar {

struct SourceLine {
  std::string file;  // its name alone: "variant.cu"
  int line = 0;
  friend bool operator==(const SourceLine&, const SourceLine&) = default;
};

class LineTable {
 public:
  // Every offset in the file is checked; an Error says what is wrong with it.
  static Expected<LineTable> read(std::span<const std::byte> cubin);

  // The line that the instruction at `offset` of a function belongs to, then the lines from which that was
  // inlined, innermost first. Empty: not known.
  std::vector<SourceLine> at(std::string_view function, std::uint64_t offset) const;
  // The innermost of those that lies in one of `files`: whoever wrote those can change nothing else.
  std::optional<SourceLine> in_files(std::string_view function, std::uint64_t offset,
                                     const std::vector<std::string_view>& files) const;
  // Offsets at which an instruction of `line` begins a stretch, ascending (for tests and views).
  std::vector<std::uint64_t> offsets_of(std::string_view function, std::string_view file, int line) const;

 private:
  struct Row {
    std::uint64_t offset = 0;
    std::uint32_t file = 0, line = 0;
    std::uint32_t caller = 0;  // 1 + index of the row that called, in the same sequence; 0: not inlined
    bool end = false;
  };
  struct Reader;
  const Row* row_at(const std::vector<Row>&, std::uint64_t offset) const;
  SourceLine line_of(const Row&) const;

  std::vector<std::string> files_;
  std::map<std::string, std::vector<Row>, std::less<>> rows_;  // by function, in the order of the file
};

}  // namespace cultivar
