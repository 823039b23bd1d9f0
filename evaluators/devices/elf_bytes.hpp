// SPDX-License-Identifier: Apache-2.0
// Bounds-checked reads of ELF files with untrusted offsets, for all targets.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace cultivar {

class ElfBytes {
 public:
  struct Malformed {
    const char* what;
  };

  explicit ElfBytes(std::span<const std::byte> file) : file_(file) {}

  // All of these throw Malformed.
  std::span<const std::byte> range(std::uint64_t offset, std::uint64_t size) const {
    if (offset > file_.size() || size > file_.size() - offset)
      throw Malformed{"a range lies beyond the end of the file"};
    return file_.subspan(offset, size);
  }
  template <class T>
  T at(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, range(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> contents(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS ? std::span<const std::byte>{}
                                         : range(section.sh_offset, section.sh_size);
  }

  template <class T>
  static std::vector<T> table(std::span<const std::byte> bytes) {
    std::vector<T> result(bytes.size() / sizeof(T));
    if (!result.empty()) std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
    return result;
  }
  static std::string text(std::span<const std::byte> strings, std::uint64_t offset) {
    if (offset >= strings.size()) throw Malformed{"a name lies beyond its string table"};
    const char* begin = reinterpret_cast<const char*>(strings.data()) + offset;
    return std::string(begin, ::strnlen(begin, strings.size() - offset));
  }

 private:
  std::span<const std::byte> file_;
};

}  // namespace cultivar
