// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/line_table.hpp"

#include <algorithm>

#include "evaluators/devices/elf_bytes.hpp"

namespace cultivar {
namespace {

// Standard and extended opcodes of DWARF 2 line programs; the last two are NVIDIA's.
enum Opcode : std::uint8_t {
  extended = 0,
  copy = 1,
  advance_pc = 2,
  advance_line = 3,
  set_file = 4,
  set_column = 5,
  negate_stmt = 6,
  set_basic_block = 7,
  const_add_pc = 8,
  fixed_advance_pc = 9,
};
constexpr std::uint8_t end_sequence = 1, set_address = 2, inlined_call = 0x90;
constexpr std::size_t most_rows = std::size_t{1} << 22;
constexpr int most_inlined = 64;

// Reads bytes from front to back; throws ElfBytes::Malformed at the end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::uint64_t begin) : bytes_(bytes), at_(begin) {}
  bool done() const { return at_ >= bytes_.size(); }
  std::uint64_t position() const { return at_; }
  void move_to(std::uint64_t position) { at_ = position; }
  template <class T>
  T fixed() {
    const T value = ElfBytes(bytes_).at<T>(at_);
    at_ += sizeof(T);
    return value;
  }
  std::uint64_t unsigned_leb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  std::int64_t signed_leb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
  }
  std::string text() {
    const std::string value = ElfBytes::text(bytes_, at_);
    at_ += value.size() + 1;
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_;
};

}  // namespace

struct LineTable::Reader {
  explicit Reader(std::span<const std::byte> file) : bytes(file) {
    const auto header = bytes.at<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
      throw ElfBytes::Malformed{"the file is not an ELF file"};
    if (header.e_shentsize != sizeof(Elf64_Shdr))
      throw ElfBytes::Malformed{"the section header size is unknown"};
    sections = ElfBytes::table<Elf64_Shdr>(
        bytes.range(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)));
    if (header.e_shstrndx >= sections.size()) throw ElfBytes::Malformed{"the section name table is missing"};
    const auto names = bytes.contents(sections[header.e_shstrndx]);
    for (std::size_t i = 0; i < sections.size(); ++i) {
      const std::string name = ElfBytes::text(names, sections[i].sh_name);
      if (name == ".debug_line") lines = bytes.contents(sections[i]);
      if (name == ".rela.debug_line" || name == ".rel.debug_line") relocations = &sections[i];
      if (sections[i].sh_type == SHT_SYMTAB) symbols = &sections[i];
    }
  }

  // Addresses in the table are relative to functions, which the relocations name.
  void read_functions() {
    if (relocations == nullptr || symbols == nullptr || symbols->sh_link >= sections.size()) return;
    const auto all = ElfBytes::table<Elf64_Sym>(bytes.contents(*symbols));
    const auto names = bytes.contents(sections[symbols->sh_link]);
    const auto name_it = [&](std::uint64_t where, std::uint64_t info) {
      const std::uint64_t symbol = info >> 32;
      if (symbol >= all.size())
        throw ElfBytes::Malformed{"a relocation refers to a symbol that does not exist"};
      functions[where] = ElfBytes::text(names, all[symbol].st_name);
    };
    const auto contents = bytes.contents(*relocations);
    if (relocations->sh_type == SHT_RELA)
      for (const auto& r : ElfBytes::table<Elf64_Rela>(contents)) name_it(r.r_offset, r.r_info);
    else
      for (const auto& r : ElfBytes::table<Elf64_Rel>(contents)) name_it(r.r_offset, r.r_info);
  }

  void read_unit(Cursor& in, LineTable& table) {
    const std::uint64_t length = in.fixed<std::uint32_t>();
    const std::uint64_t end = in.position() + length;
    if (end > lines.size()) throw ElfBytes::Malformed{"a line table extends beyond its section"};
    const auto version = in.fixed<std::uint16_t>();
    if (version < 2 || version > 3) throw ElfBytes::Malformed{"a line table has an unknown version"};
    const std::uint64_t header = in.fixed<std::uint32_t>();
    const std::uint64_t program = in.position() + header;
    const auto step = in.fixed<std::uint8_t>();
    in.fixed<std::uint8_t>();  // is_stmt
    const auto line_base = static_cast<std::int8_t>(in.fixed<std::uint8_t>());
    const auto line_range = in.fixed<std::uint8_t>();
    const auto opcode_base = in.fixed<std::uint8_t>();
    if (line_range == 0 || opcode_base == 0) throw ElfBytes::Malformed{"a line table has an empty range"};
    std::vector<std::uint8_t> operands(opcode_base, 0);
    for (std::uint8_t i = 1; i < opcode_base; ++i) operands[i] = in.fixed<std::uint8_t>();
    while (!in.text().empty()) {  // folders
    }
    const auto first_file = static_cast<std::uint32_t>(table.files_.size());
    for (std::string name = in.text(); !name.empty(); name = in.text()) {
      for (int i = 0; i < 3; ++i) in.unsigned_leb();  // folder, time, length
      table.files_.push_back(name.substr(name.rfind('/') + 1));
    }
    in.move_to(program);

    Row row;
    std::uint32_t file = 1;
    std::int64_t line = 1;
    std::string function;
    std::vector<Row> sequence;
    const auto emit = [&](bool last) {
      row.file = first_file + file - 1;
      row.line = static_cast<std::uint32_t>(std::clamp<std::int64_t>(line, 0, INT32_MAX));
      row.end = last;
      sequence.push_back(row);
      if (sequence.size() > most_rows) throw ElfBytes::Malformed{"a line table does not end"};
    };
    const auto advance = [&](std::uint64_t by) { row.offset += by * step; };
    while (in.position() < end) {
      const auto opcode = in.fixed<std::uint8_t>();
      if (opcode >= opcode_base) {
        const int special = opcode - opcode_base;
        advance(static_cast<std::uint64_t>(special / line_range));
        line += line_base + special % line_range;
        emit(false);
        continue;
      }
      switch (opcode) {
        case extended: {
          const std::uint64_t bytes_of_it = in.unsigned_leb();
          if (bytes_of_it > lines.size() - std::min<std::uint64_t>(in.position(), lines.size()))
            throw ElfBytes::Malformed{"an instruction of a line table lies beyond its section"};
          const std::uint64_t next = in.position() + bytes_of_it;
          if (bytes_of_it == 0) break;
          const auto which = in.fixed<std::uint8_t>();
          if (which == set_address) {
            const auto found = functions.find(in.position());
            function = found == functions.end() ? "" : found->second;
            row.offset = in.fixed<std::uint64_t>();
          } else if (which == inlined_call) {
            row.caller = static_cast<std::uint32_t>(in.unsigned_leb());
          } else if (which == end_sequence) {
            emit(true);
            auto& rows = table.rows_[function];
            const auto before = static_cast<std::uint32_t>(rows.size());
            for (Row& each : sequence)
              if (each.caller != 0) each.caller += before;
            rows.insert(rows.end(), sequence.begin(), sequence.end());
            sequence.clear();
            row = Row{};
            file = 1;
            line = 1;
          }
          in.move_to(next);
          break;
        }
        case copy:
          emit(false);
          break;
        case advance_pc:
          advance(in.unsigned_leb());
          break;
        case advance_line:
          // Clamp to valid line numbers, whatever the table contains.
          line = std::clamp(line + std::clamp<std::int64_t>(in.signed_leb(), -INT32_MAX, INT32_MAX),
                            std::int64_t{-INT32_MAX}, std::int64_t{INT32_MAX});
          break;
        case set_file:
          file = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, in.unsigned_leb()));
          break;
        case const_add_pc:
          advance(static_cast<std::uint64_t>((255 - opcode_base) / line_range));
          break;
        case fixed_advance_pc:
          row.offset += in.fixed<std::uint16_t>();
          break;
        default:  // set_column, negate_stmt, set_basic_block, and opcodes that a newer toolkit may add
          for (int i = 0; i < operands[opcode]; ++i) in.unsigned_leb();
      }
    }
    in.move_to(end);
  }

  ElfBytes bytes;
  std::vector<Elf64_Shdr> sections;
  std::span<const std::byte> lines;
  const Elf64_Shdr *relocations = nullptr, *symbols = nullptr;
  std::map<std::uint64_t, std::string> functions;  // by the position of their address in .debug_line
};

Expected<LineTable> LineTable::read(std::span<const std::byte> cubin) {
  try {
    Reader reader(cubin);
    if (reader.lines.empty())
      return failure("read line table",
                     "the machine code has no line table (it was compiled without line information)");
    reader.read_functions();
    LineTable table;
    for (Cursor in(reader.lines, 0); !in.done();) reader.read_unit(in, table);
    return table;
  } catch (const ElfBytes::Malformed& malformed) {
    return failure("read line table", malformed.what);
  }
}

const LineTable::Row* LineTable::row_at(const std::vector<Row>& rows, std::uint64_t offset) const {
  // The last row at or before the offset counts; several rows may have the same offset.
  const Row* best = nullptr;
  for (const Row& row : rows)
    if (row.offset <= offset && (best == nullptr || row.offset >= best->offset)) best = &row;
  return best == nullptr || best->end ? nullptr : best;
}

SourceLine LineTable::line_of(const Row& row) const {
  return {row.file < files_.size() ? files_[row.file] : "?", static_cast<int>(row.line)};
}

std::vector<SourceLine> LineTable::at(std::string_view function, std::uint64_t offset) const {
  const auto found = rows_.find(function);
  if (found == rows_.end()) return {};
  std::vector<SourceLine> lines;
  const Row* row = row_at(found->second, offset);
  for (int depth = 0; row != nullptr && depth < most_inlined; ++depth) {
    lines.push_back(line_of(*row));
    const std::uint32_t caller = row->caller;
    row = caller == 0 || caller > found->second.size() ? nullptr : &found->second[caller - 1];
  }
  return lines;
}

void LineTable::add_to(PcSamples& samples) const {
  for (PcSample& sample : samples.samples) sample.lines = at(sample.function, sample.offset);
}

std::vector<std::uint64_t> LineTable::offsets_of(std::string_view function, std::string_view file,
                                                 int line) const {
  std::vector<std::uint64_t> offsets;
  if (const auto found = rows_.find(function); found != rows_.end())
    for (const Row& row : found->second)
      if (!row.end && line_of(row) == SourceLine{std::string(file), line}) offsets.push_back(row.offset);
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  return offsets;
}

}  // namespace cultivar
