#include "evaluators/targets/cpu/elf_image.hpp"

#include "evaluators/targets/elf_bytes.hpp"

namespace cultivar {
namespace {

using Malformed = ElfBytes::Malformed;

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
    image.segments.push_back({p.p_type, p.p_flags, p.p_vaddr, p.p_memsz});
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
  for (const auto& s : sections) {
    image.sections.push_back(
        {ElfBytes::text(names, s.sh_name), s.sh_type, s.sh_flags, s.sh_addr, s.sh_size, bytes.contents(s)});
    if (s.sh_type == SHT_DYNSYM) {
      const auto strings = linked(s);
      for (const auto& symbol : ElfBytes::table<Elf64_Sym>(bytes.contents(s))) {
        if (symbol.st_name == 0) continue;
        const auto kind = ELF64_ST_TYPE(symbol.st_info);
        image.symbols.push_back({ElfBytes::text(strings, symbol.st_name), symbol.st_shndx != SHN_UNDEF,
                                 kind == STT_FUNC || kind == STT_GNU_IFUNC, kind == STT_GNU_IFUNC,
                                 ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
                                     ELF64_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT});
      }
    } else if (s.sh_type == SHT_DYNAMIC) {
      if (dynamic.size() != 1 || dynamic[0].p_offset != s.sh_offset || dynamic[0].p_vaddr != s.sh_addr)
        throw Malformed{"the dynamic section is not the one that the loader reads"};
      const auto strings = linked(s);
      for (const auto& entry : ElfBytes::table<Elf64_Dyn>(bytes.contents(s))) {
        if (entry.d_tag == DT_NEEDED)
          image.needed.push_back(ElfBytes::text(strings, entry.d_un.d_val));
        else if (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0)
          image.tags.push_back(DT_TEXTREL);
        else if (entry.d_tag != DT_NULL)
          image.tags.push_back(static_cast<std::uint64_t>(entry.d_tag));
      }
    } else if (s.sh_type == SHT_RELA) {
      for (const auto& relocation : ElfBytes::table<Elf64_Rela>(bytes.contents(s))) {
        const auto type = ELF64_R_TYPE(relocation.r_info);
        const std::uint32_t irelative =
            header.e_machine == EM_AARCH64 ? R_AARCH64_IRELATIVE : R_X86_64_IRELATIVE;
        if (type == irelative) image.indirect_relocations = true;
      }
    }
  }
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
