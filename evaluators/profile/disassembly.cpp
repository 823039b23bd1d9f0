// SPDX-License-Identifier: Apache-2.0
#include "evaluators/profile/disassembly.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <set>

#include "evaluators/system/process.hpp"

namespace cultivar {
namespace {

constexpr double deadline_s = 10.0;
constexpr std::size_t most_bytes = std::size_t{32} << 20;

// %ymm13 -> 256 bits, register 13; 0 bits if no vector register begins here.
struct VectorRegister {
  int bits = 0, number = 0;
};
VectorRegister register_at(std::string_view text) {
  for (const auto& [name, bits] : {std::pair{"%zmm", 512}, {"%ymm", 256}, {"%xmm", 128}}) {
    if (!text.starts_with(name)) continue;
    int number = 0;
    for (std::size_t i = 4; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
      number = 10 * number + (text[i] - '0');
    return {bits, number};
  }
  return {};
}

}  // namespace

std::map<std::string, double> vector_use(std::string_view disassembly) {
  double instructions = 0.0, stack = 0.0, streamed = 0.0;
  std::map<int, double> by_width;
  std::map<int, std::set<int>> registers;
  while (!disassembly.empty()) {
    const std::size_t end = std::min(disassembly.find('\n'), disassembly.size());
    const std::string_view line = disassembly.substr(0, end);
    disassembly.remove_prefix(std::min(end + 1, disassembly.size()));
    const std::size_t colon = line.find(":\t");  // "    1139:\tvmovups (%rdi),%zmm0"
    if (colon == line.npos || line.find_first_not_of(" ") == line.npos) continue;
    const std::string_view text = line.substr(colon + 2);
    ++instructions;
    const std::string_view mnemonic = text.substr(0, text.find_first_of(" \t"));
    const bool loads = mnemonic.ends_with("movntdqa");
    if (mnemonic.find("movnt") != mnemonic.npos && !loads) ++streamed;
    if (text.find("(%rsp") != text.npos && !text.starts_with("lea") && !text.starts_with("nop")) ++stack;
    int widest = 0;
    for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1)) {
      const VectorRegister found = register_at(text.substr(at));
      if (found.bits == 0) continue;
      widest = std::max(widest, found.bits);
      registers[0].insert(found.number);
    }
    if (widest > 0) ++by_width[widest];
  }
  if (instructions == 0.0) return {};
  std::map<std::string, double> use{{"instructions", instructions}, {"stack_accesses", stack}};
  if (streamed > 0.0) use["streamed_stores"] = streamed;
  use["widest_vector_bits"] = by_width.empty() ? 0.0 : by_width.rbegin()->first;
  use["vector_instructions"] = by_width.empty() ? 0.0 : by_width.rbegin()->second;
  use["vector_registers"] = static_cast<double>(registers[0].size());
  return use;
}

Expected<std::string> disassembled(const std::filesystem::path& object,
                                   const std::vector<std::string>& more) {
#ifndef __x86_64__
  return failure("disassemble", "machine code can be read only if it is for x86-64");
#endif
  ProcessOptions options;
  options.command = {"objdump", "-d", "--no-show-raw-insn", "-j", ".text"};
  options.command.insert(options.command.end(), more.begin(), more.end());
  options.command.push_back(object.string());
  options.environment = {{"LC_ALL=C"}};
  options.pipe_input = false;
  auto child = ChildProcess::spawn(options);
  if (!child) return failure("disassemble", "objdump is missing; install the package binutils");
  const Clock::time_point deadline = deadline_in(deadline_s);
  std::string text;
  std::array<char, 65536> chunk{};
  while (text.size() < most_bytes && Clock::now() < deadline) {
    pollfd ready{child->output(), POLLIN, 0};
    if (::poll(&ready, 1, 200) < 0) break;
    if (ready.revents == 0) continue;
    const ssize_t got = ::read(child->output(), chunk.data(), chunk.size());
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  if (!child->wait_or_kill(deadline) || !child->poll()->success())
    return failure("disassemble", "objdump failed: " + child->captured());
  return text;
}

Expected<std::map<std::string, double>> vector_use_of(const std::filesystem::path& object) {
  const auto text = disassembled(object);
  if (!text) return tl::make_unexpected(text.error());
  return vector_use(*text);
}

}  // namespace cultivar
