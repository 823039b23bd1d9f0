// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/cubin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "evaluators/devices/elf_bytes.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {
namespace {

constexpr Elf64_Half machine_cuda = 190;
constexpr unsigned entry_flag = 0x10;  // STO_CUDA_ENTRY in a symbol's st_other
constexpr std::uint64_t reserved_shared =
    1024;  // reserved in every block on 9.0 and later; included in the section's size

// Attributes of .nv.info and .nv.info.<kernel>: a format byte, an attribute byte, then a 16-bit value or the
// size of the payload that follows. The numbers are those of NVIDIA's tools; unlisted attributes are skipped.
enum : unsigned {
  format_sized = 4,
  attribute_max_threads = 0x05,
  attribute_required_threads = 0x10,
  attribute_frame_size = 0x11,  // symbol, bytes
  attribute_stack_size = 0x12,  // symbol, bytes: including its callees
  attribute_parameter = 0x17,
  attribute_registers = 0x2f,  // symbol, count
  attribute_cluster = 0x3d,
  attribute_explicit_cluster = 0x3e,
  attribute_barriers = 0x4c
};

class CubinReader {
 public:
  explicit CubinReader(std::span<const std::byte> file) : bytes_(file) {}

  Cubin read(const std::vector<std::string>& order) {
    const auto header = bytes_.at<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != machine_cuda)
      throw ElfBytes::Malformed{"the file is not a cubin"};
    if (header.e_shentsize != sizeof(Elf64_Shdr))
      throw ElfBytes::Malformed{"the section header size is unknown"};
    // CUDA 13 stores the architecture in the second byte of the flags; earlier versions use the first byte.
    cubin_.architecture = static_cast<int>(header.e_ident[EI_ABIVERSION] >= 8 ? (header.e_flags >> 8) & 0xffff
                                                                              : header.e_flags & 0xff);
    sections_ =
        ElfBytes::table<Elf64_Shdr>(bytes_.range(header.e_shoff, sizeof(Elf64_Shdr) * header.e_shnum));
    bytes_.range(header.e_phoff, std::uint64_t{header.e_phentsize} * header.e_phnum);
    if (header.e_shstrndx >= sections_.size()) throw ElfBytes::Malformed{"the section name table is missing"};
    const auto names = bytes_.contents(sections_[header.e_shstrndx]);
    for (const auto& s : sections_) names_.push_back(ElfBytes::text(names, s.sh_name));
    read_symbols();
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      if (names_[i] == ".nv.info") read_module_information(bytes_.contents(sections_[i]));
      for (CubinKernel& kernel : cubin_.kernels)
        if (names_[i] == ".nv.info." + kernel.name)
          read_kernel_information(bytes_.contents(sections_[i]), kernel);
    }
    for (CubinKernel& kernel : cubin_.kernels) measure(kernel);
    cubin_.code_hash = hash(order);
    return std::move(cubin_);
  }

 private:
  void read_symbols() {
    for (const auto& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      if (section.sh_link >= sections_.size())
        throw ElfBytes::Malformed{"a section links to a section that does not exist"};
      const auto strings = bytes_.contents(sections_[section.sh_link]);
      for (const auto& symbol : ElfBytes::table<Elf64_Sym>(bytes_.contents(section))) {
        symbols_.push_back(symbol);
        symbol_names_.push_back(symbol.st_name == 0 ? "" : ElfBytes::text(strings, symbol.st_name));
        classify(symbol, symbol_names_.back());
      }
      return;
    }
    throw ElfBytes::Malformed{"the symbol table is missing"};
  }

  void classify(const Elf64_Sym& symbol, const std::string& name) {
    const auto kind = ELF64_ST_TYPE(symbol.st_info);
    if (kind == STT_FUNC && symbol.st_shndx != SHN_UNDEF) {
      if (symbol.st_other & entry_flag) cubin_.kernels.emplace_back().name = name;
      return;
    }
    if (symbol.st_shndx == SHN_UNDEF) {
      // Symbols that the driver fills in are weak.
      if (!name.empty() && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL) cubin_.externals.push_back(name);
      return;
    }
    if (symbol.st_shndx >= sections_.size() || kind != STT_OBJECT) return;
    const std::string& section = names_[symbol.st_shndx];
    if (section.starts_with(".nv.global"))
      cubin_.globals.push_back({name, symbol.st_size, section == ".nv.global.init"});
    if (section == ".nv.constant3") cubin_.constants.push_back({name, symbol.st_size, true});
  }

  template <class Take>
  static void for_each_attribute(std::span<const std::byte> contents, Take take) {
    const ElfBytes bytes(contents);
    for (std::size_t at = 0; at + 4 <= contents.size();) {
      const auto format = bytes.at<std::uint8_t>(at), attribute = bytes.at<std::uint8_t>(at + 1);
      const auto value = bytes.at<std::uint16_t>(at + 2);
      at += 4;
      std::span<const std::byte> payload;
      if (format == format_sized) {
        payload = bytes.range(at, value);
        at += value;
      }
      take(attribute, value, payload);
    }
  }

  CubinKernel* kernel_of_symbol(std::uint32_t index) {
    if (index >= symbol_names_.size())
      throw ElfBytes::Malformed{"an attribute refers to a symbol that does not exist"};
    const auto found = std::find_if(cubin_.kernels.begin(), cubin_.kernels.end(),
                                    [&](const CubinKernel& k) { return k.name == symbol_names_[index]; });
    return found == cubin_.kernels.end() ? nullptr : &*found;
  }

  void read_module_information(std::span<const std::byte> contents) {
    for_each_attribute(contents, [&](unsigned attribute, unsigned, std::span<const std::byte> payload) {
      if (attribute != attribute_registers && attribute != attribute_frame_size &&
          attribute != attribute_stack_size)
        return;
      const ElfBytes words(payload);
      CubinKernel* const kernel = kernel_of_symbol(words.at<std::uint32_t>(0));
      const auto number = words.at<std::uint32_t>(4);
      if (kernel == nullptr) return;
      if (attribute == attribute_registers)
        kernel->registers = number;
      else if (number != 0xffffffffu)  // the depth is unknown: recursion
        kernel->stack_bytes = std::max(kernel->stack_bytes, number);
    });
  }

  static std::array<std::uint32_t, 3> three(std::span<const std::byte> payload) {
    const ElfBytes words(payload);
    return {words.at<std::uint32_t>(0), words.at<std::uint32_t>(4), words.at<std::uint32_t>(8)};
  }

  void read_kernel_information(std::span<const std::byte> contents, CubinKernel& kernel) {
    std::map<std::uint16_t, CubinParameter> parameters;
    std::optional<std::array<std::uint32_t, 3>> cluster;
    bool explicit_cluster = false;
    for_each_attribute(contents, [&](unsigned attribute, unsigned value, std::span<const std::byte> payload) {
      switch (attribute) {
        case attribute_parameter: {  // index, ordinal (16 bits), offset (16 bits), size in the bits from 18
                                     // on
          const ElfBytes words(payload);
          parameters[words.at<std::uint16_t>(4)] = {words.at<std::uint16_t>(6),
                                                    words.at<std::uint32_t>(8) >> 18};
          break;
        }
        case attribute_max_threads:
          kernel.threads_at_most = three(payload);
          break;
        case attribute_required_threads:
          kernel.threads_exactly = three(payload);
          break;
        case attribute_cluster:
          cluster = three(payload);
          break;
        case attribute_explicit_cluster:
          explicit_cluster = true;
          break;
        case attribute_barriers:
          kernel.barriers = value & 0xff;
          break;
        default:
          break;
      }
    });
    if (explicit_cluster) kernel.cluster_exactly = cluster;
    for (const auto& [ordinal, parameter] : parameters) kernel.parameters.push_back(parameter);
  }

  void measure(CubinKernel& kernel) const {
    const auto size = [&](const std::string& name) -> std::uint64_t {
      const auto found = std::find(names_.begin(), names_.end(), name);
      return found == names_.end() ? 0 : sections_[static_cast<std::size_t>(found - names_.begin())].sh_size;
    };
    kernel.code_bytes = size(".text." + kernel.name);
    kernel.constant_bytes = static_cast<std::uint32_t>(size(".nv.constant0." + kernel.name));
    std::uint64_t shared = size(".nv.shared." + kernel.name);
    if (cubin_.architecture >= 90 && shared >= reserved_shared) shared -= reserved_shared;
    kernel.shared_bytes = static_cast<std::uint32_t>(shared);
  }

  // The kind of a section, without the name of its kernel: ".text", ".nv.constant0", ".nv.shared".
  static std::string kind_of(const std::string& section) {
    for (const std::string_view kind : {".text.", ".nv.constant", ".nv.shared.", ".nv.local."})
      if (section.starts_with(kind)) return section.substr(0, section.find('.', kind.size() - 1));
    return section;
  }

  // The content of one section for the hash: its bytes and the relocations applied when it is loaded.
  std::string content_of(std::size_t index) const {
    const Elf64_Shdr& section = sections_[index];
    std::string content = fmt::format("{} {}\n", kind_of(names_[index]), section.sh_size);
    const auto bytes = bytes_.contents(section);
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type != SHT_RELA || table.sh_info != index) continue;
      auto relocations = ElfBytes::table<Elf64_Rela>(bytes_.contents(table));
      std::sort(relocations.begin(), relocations.end(),
                [](const Elf64_Rela& a, const Elf64_Rela& b) { return a.r_offset < b.r_offset; });
      for (const Elf64_Rela& r : relocations) {
        const auto symbol = ELF64_R_SYM(r.r_info);
        if (symbol >= symbols_.size())
          throw ElfBytes::Malformed{"a relocation refers to a symbol that does not exist"};
        const auto& to = symbols_[symbol];
        const bool here = to.st_shndx != SHN_UNDEF && to.st_shndx < sections_.size();
        content += fmt::format("{} {} {} {}+{}\n", r.r_offset, ELF64_R_TYPE(r.r_info), r.r_addend,
                               here ? kind_of(names_[to.st_shndx]) : symbol_names_[symbol], to.st_value);
      }
    }
    return content;
  }

  static std::string promises_of(const CubinKernel& k) {
    std::string text = fmt::format("{} {} {} {}", k.registers, k.stack_bytes, k.shared_bytes, k.barriers);
    for (const auto& p : k.parameters) text += fmt::format(" {}:{}", p.offset, p.bytes);
    for (const auto& shape : {k.threads_at_most, k.threads_exactly, k.cluster_exactly})
      text += shape ? fmt::format(" [{} {} {}]", (*shape)[0], (*shape)[1], (*shape)[2]) : " []";
    return text + "\n";
  }

  std::string hash(const std::vector<std::string>& order) const {
    std::map<std::string, std::string, std::less<>>
        of_kernel;  // kernel -> hash of its code and its launch bounds
    std::vector<std::string> shared_by_all;
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      const std::string& name = names_[i];
      if (!(sections_[i].sh_flags & SHF_ALLOC) || sections_[i].sh_type == SHT_NOTE ||
          name.starts_with(".nv.shared.reserved"))
        continue;
      const auto owner =
          std::find_if(cubin_.kernels.begin(), cubin_.kernels.end(), [&](const CubinKernel& k) {
            return name.ends_with("." + k.name) && name.starts_with(kind_of(name) + ".");
          });
      if (owner == cubin_.kernels.end())
        shared_by_all.push_back(content_of(i));
      else
        of_kernel[owner->name] += content_of(i);
    }
    std::string all;
    for (const std::string& name : order)
      if (const CubinKernel* kernel = cubin_.kernel(name))
        all += promises_of(*kernel) + of_kernel[name] + "\n";
    std::vector<std::string> others;
    for (const CubinKernel& kernel : cubin_.kernels)
      if (std::find(order.begin(), order.end(), kernel.name) == order.end())
        others.push_back(promises_of(kernel) + of_kernel[kernel.name]);
    std::sort(others.begin(), others.end());
    for (const std::string& other : others) all += other + "\n";
    for (const std::string& section : shared_by_all) all += section + "\n";
    return sha256_hex(all);
  }

  ElfBytes bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::string> names_, symbol_names_;  // of sections and of symbols
  std::vector<Elf64_Sym> symbols_;
  Cubin cubin_;
};

}  // namespace

const CubinKernel* Cubin::kernel(std::string_view name) const {
  const auto found =
      std::find_if(kernels.begin(), kernels.end(), [&](const CubinKernel& k) { return k.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

Expected<Cubin> read_cubin(std::span<const std::byte> file, const std::vector<std::string>& order) {
  try {
    return CubinReader(file).read(order);
  } catch (const ElfBytes::Malformed& malformed) {
    return failure("read cubin", malformed.what);
  }
}

}  // namespace cultivar
