// SPDX-License-Identifier: Apache-2.0
// What the screen needs from a shared object. Reads 64-bit little-endian ELF and checks every offset, and
// that the loader will read the same: an object whose sections and dynamic section disagree is malformed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

struct ElfSection {
  std::string name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0, address = 0, bytes = 0;
  std::span<const std::byte> contents;  // into the file given to read_elf; empty for .bss
};

struct ElfSegment {
  std::uint32_t type = 0, flags = 0;
  std::uint64_t address = 0, bytes = 0, offset = 0;  // in memory, and in the file
};

struct ElfSymbol {
  std::string name;
  bool defined = false, function = false, indirect = false, global = false;
  std::uint64_t address = 0;
};

struct ElfImage {
  std::vector<ElfSection> sections;
  std::vector<ElfSegment> segments;
  std::vector<ElfSymbol> symbols;     // dynamic ones
  std::vector<std::string> needed;    // DT_NEEDED
  std::vector<std::uint64_t> tags;    // all other dynamic tags, whatever their values
  bool indirect_relocations = false;  // IRELATIVE: resolvers that run while the object loads
};

Expected<ElfImage> read_elf(std::span<const std::byte> file);

}  // namespace cultivar
