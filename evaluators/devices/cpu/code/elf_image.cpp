// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/code/elf_image.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "evaluators/devices/elf_bytes.hpp"

namespace cultivar {
namespace {

using Malformed = ElfBytes::Malformed;

// The loader follows the dynamic section, the screen the sections. A source can write into both of them (asm
// directives for sections with the linker's names), so they must agree.
class LoaderTables {
 public:
  void add(const Elf64_Dyn& entry) {
    const auto tag = static_cast<std::uint64_t>(entry.d_tag);
    if (tag == DT_NULL) {
      ended_ = true;
      return;
    }
    if (ended_) throw Malformed{"the dynamic section goes on after its end"};
    if (tag != DT_NEEDED && !values_.emplace(tag, entry.d_un.d_val).second)
      throw Malformed{"the dynamic section has two entries of one kind"};
  }

  // Throws Malformed if the loader would read symbols, names or relocations elsewhere than in these sections.
  void check(std::span<const Elf64_Shdr> sections, std::span<const ElfSegment> segments) const {
    const Elf64_Shdr* symbols = nullptr;
    for (const Elf64_Shdr& s : sections)
      if (s.sh_type == SHT_DYNSYM && std::exchange(symbols, &s) != nullptr)
        throw Malformed{"the object has two symbol tables"};
    if (symbols == nullptr || value(DT_SYMTAB) != symbols->sh_addr ||
        value(DT_STRTAB) != sections[symbols->sh_link].sh_addr || !mapped(*symbols, segments) ||
        !mapped(sections[symbols->sh_link], segments) || symbols->sh_size % sizeof(Elf64_Sym) != 0)
      throw Malformed{"the symbols are not those that the loader reads"};
    check_relocations(sections, segments, DT_RELA, DT_RELASZ);
    check_relocations(sections, segments, DT_JMPREL, DT_PLTRELSZ);
  }

 private:
  std::uint64_t value(std::uint64_t tag) const {
    const auto found = values_.find(tag);
    return found == values_.end() ? 0 : found->second;
  }

  // Whether the loader finds the section's bytes at the section's address.
  static bool mapped(const Elf64_Shdr& section, std::span<const ElfSegment> segments) {
    std::size_t holding = 0, right = 0;
    for (const ElfSegment& segment : segments) {
      if (segment.type != PT_LOAD || section.sh_addr < segment.address ||
          section.sh_addr - segment.address >= segment.bytes)
        continue;
      ++holding;
      right += section.sh_size <= segment.bytes - (section.sh_addr - segment.address) &&
               section.sh_offset - segment.offset == section.sh_addr - segment.address;
    }
    return holding == 1 && right == 1;
  }

  void check_relocations(std::span<const Elf64_Shdr> sections, std::span<const ElfSegment> segments,
                         std::uint64_t tag, std::uint64_t bytes) const {
    if (!values_.contains(tag) && value(bytes) == 0) return;
    if (std::ranges::none_of(sections, [&](const Elf64_Shdr& s) {
          return s.sh_type == SHT_RELA && s.sh_addr == value(tag) && s.sh_size == value(bytes) &&
                 s.sh_size % sizeof(Elf64_Rela) == 0 && mapped(s, segments);
        }))
      throw Malformed{"the relocations are not those that the loader applies"};
  }

  std::map<std::uint64_t, std::uint64_t> values_;
  bool ended_ = false;
};

bool is_indirect(std::uint64_t type, std::uint16_t machine) {
  return type == (machine == EM_AARCH64 ? std::uint64_t{R_AARCH64_IRELATIVE} : R_X86_64_IRELATIVE);
}

// One that copies a symbol's bytes, or a kind that no compiler writes.
bool is_unusual(std::uint64_t type, std::uint16_t machine) {
  constexpr std::array<std::uint64_t, 7> kX86 = {R_X86_64_64,       R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT,
                                                 R_X86_64_RELATIVE, R_X86_64_DTPMOD64, R_X86_64_DTPOFF64,
                                                 R_X86_64_TPOFF64};
  constexpr std::array<std::uint64_t, 7> kArm = {
      R_AARCH64_ABS64,      R_AARCH64_GLOB_DAT,   R_AARCH64_JUMP_SLOT, R_AARCH64_RELATIVE,
      R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_DTPREL, R_AARCH64_TLS_TPREL};
  return std::ranges::count(machine == EM_AARCH64 ? kArm : kX86, type) == 0;
}

// A relocation writes into the object's own data, but not into the table that tells the loader where
// everything is, and names one of its symbols. One that calls a resolver is refused by the screen.
void check_relocation(const Elf64_Rela& relocation, std::span<const ElfSegment> segments,
                      std::uint64_t symbols, std::uint16_t machine) {
  if (relocation.r_info == 0) return;  // the linker fills places that it did not need
  if (ELF64_R_SYM(relocation.r_info) >= std::max<std::uint64_t>(1, symbols))
    throw Malformed{"a relocation names a symbol beyond the symbol table"};
  if (std::ranges::none_of(segments, [&](const ElfSegment& segment) {
        return segment.type == PT_LOAD && (segment.flags & PF_W) != 0 &&
               relocation.r_offset >= segment.address &&
               relocation.r_offset - segment.address + sizeof(std::uint64_t) <= segment.bytes;
      }))
    throw Malformed{"a relocation writes outside of the object's data"};
  const std::uint64_t type = ELF64_R_TYPE(relocation.r_info);
  if (is_indirect(type, machine)) return;
  if (is_unusual(type, machine)) throw Malformed{"a relocation is of a kind that kernels do not need"};
  if (std::ranges::any_of(segments, [&](const ElfSegment& segment) {
        return segment.type == PT_DYNAMIC && relocation.r_offset < segment.address + segment.bytes &&
               segment.address < relocation.r_offset + sizeof(std::uint64_t);
      }))
    throw Malformed{"a relocation writes into the loader's own table"};
}

ElfImage read(std::span<const std::byte> file) {
  const ElfBytes bytes(file);
  const auto header = bytes.at<Elf64_Ehdr>(0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN)
    throw Malformed{"the file is not a 64-bit shared object"};
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_phentsize != sizeof(Elf64_Phdr))
    throw Malformed{"the section or program header size is unknown"};

  ElfImage image;
  std::vector<Elf64_Phdr> dynamic;  // what the loader reads; sections are for linkers
  for (const auto& p :
       ElfBytes::table<Elf64_Phdr>(bytes.range(header.e_phoff, sizeof(Elf64_Phdr) * header.e_phnum))) {
    image.segments.push_back({p.p_type, p.p_flags, p.p_vaddr, p.p_memsz, p.p_offset});
    if (p.p_type == PT_DYNAMIC) dynamic.push_back(p);
  }

  const auto sections =
      ElfBytes::table<Elf64_Shdr>(bytes.range(header.e_shoff, sizeof(Elf64_Shdr) * header.e_shnum));
  if (header.e_shstrndx >= sections.size()) throw Malformed{"the section name table is missing"};
  const auto linked = [&](const Elf64_Shdr& s) {
    if (s.sh_link >= sections.size()) throw Malformed{"a section links to a section that does not exist"};
    return bytes.contents(sections[s.sh_link]);
  };
  const auto names = bytes.contents(sections[header.e_shstrndx]);
  LoaderTables loader;
  std::uint64_t symbols = 0;
  for (const auto& s : sections)
    if (s.sh_type == SHT_DYNSYM) symbols = s.sh_size / sizeof(Elf64_Sym);
  for (const auto& s : sections) {
    image.sections.push_back(
        {ElfBytes::text(names, s.sh_name), s.sh_type, s.sh_flags, s.sh_addr, s.sh_size, bytes.contents(s)});
    if (s.sh_type == SHT_DYNSYM) {
      const auto strings = linked(s);
      for (const auto& symbol : ElfBytes::table<Elf64_Sym>(bytes.contents(s))) {
        if (symbol.st_name == 0 && symbol.st_value == 0) continue;
        const auto kind = ELF64_ST_TYPE(symbol.st_info);
        image.symbols.push_back({ElfBytes::text(strings, symbol.st_name), symbol.st_shndx != SHN_UNDEF,
                                 kind == STT_FUNC || kind == STT_GNU_IFUNC, kind == STT_GNU_IFUNC,
                                 ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
                                     ELF64_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT,
                                 symbol.st_value});
      }
    } else if (s.sh_type == SHT_DYNAMIC) {
      if (dynamic.size() != 1 || dynamic[0].p_offset != s.sh_offset || dynamic[0].p_vaddr != s.sh_addr)
        throw Malformed{"the dynamic section is not the one that the loader reads"};
      const auto strings = linked(s);
      for (const auto& entry : ElfBytes::table<Elf64_Dyn>(bytes.contents(s))) {
        loader.add(entry);
        if (entry.d_tag == DT_NEEDED)
          image.needed.push_back(ElfBytes::text(strings, entry.d_un.d_val));
        else if (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0)
          image.tags.push_back(DT_TEXTREL);
        else if (entry.d_tag != DT_NULL)
          image.tags.push_back(static_cast<std::uint64_t>(entry.d_tag));
      }
    } else if (s.sh_type == SHT_RELA) {
      for (const auto& relocation : ElfBytes::table<Elf64_Rela>(bytes.contents(s))) {
        check_relocation(relocation, image.segments, symbols, header.e_machine);
        if (is_indirect(ELF64_R_TYPE(relocation.r_info), header.e_machine)) image.indirect_relocations = true;
      }
    }
  }
  loader.check(sections, image.segments);
  return image;
}

}  // namespace

Expected<ElfImage> read_elf(std::span<const std::byte> file) {
  try {
    return read(file);
  } catch (const Malformed& malformed) {
    return failure("read shared object", malformed.what);
  }
}

}  // namespace cultivar
