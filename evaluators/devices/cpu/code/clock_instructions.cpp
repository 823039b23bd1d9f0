// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/code/clock_instructions.hpp"

#include <elf.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <vector>

#include "evaluators/profile/disassembly.hpp"

namespace cultivar {
namespace {

using namespace std::string_view_literals;

constexpr std::array bytes_of_clocks = {"\x0f\x31"sv, "\x0f\x01\xf9"sv, "\x0f\x01\xfd"sv};
constexpr std::array clocks = {"rdtscp"sv, "rdtsc"sv, "rdpru"sv};

bool faults_in_a_child() {
#if defined(__x86_64__) && defined(PR_SET_TSC)
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {  // only what is safe after a fork of a process with threads
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(SIGSEGV, SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
    if (::prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) ::_exit(1);
    unsigned low = 0, high = 0;
    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
#else
  return true;
#endif
}

bool has_bytes_of_one(std::string_view code) {
  for (const std::string_view bytes : bytes_of_clocks)
    if (code.find(bytes) != code.npos) return true;
  return false;
}

}  // namespace

bool clock_instructions_fault() {
  static const bool fault = faults_in_a_child();
  return fault;
}

std::string clock_instruction_in(const ElfImage& image, const std::filesystem::path& object) {
  std::vector<std::string> sections;
  for (const auto& section : image.sections)
    if ((section.flags & SHF_EXECINSTR) &&
        has_bytes_of_one({reinterpret_cast<const char*>(section.contents.data()), section.contents.size()}))
      sections.insert(sections.end(), {"-j", section.name});
  if (sections.empty()) return {};
  const auto text = disassembled(object, sections);
  if (!text) return "rdtsc (its bytes are in the code, and " + text.error().message + ")";
  for (const std::string_view clock : clocks)
    if (text->find("\t" + std::string(clock)) != text->npos) return std::string(clock);
  return {};
}

}  // namespace cultivar
