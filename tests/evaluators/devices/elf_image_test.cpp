// SPDX-License-Identifier: Apache-2.0
// Shared objects whose tables would make the loader do something else than the screen has seen.
#include "evaluators/devices/cpu/code/elf_image.hpp"

#include <elf.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>

#include "evaluators/system/files.hpp"
#include "support/cpu_kernels.hpp"

using namespace cultivar;

namespace {

const std::string kCallsExp =
    "#include <cmath>\nextern \"C\" void k(float* y, const float* x) { for (int i = 0; i < 64; ++i) y[i] = "
    "std::erf(x[i]); }\n";

std::string object_of(const std::string& source) {
  return read_file(cpu_test::compiled(cpu_test::by_hand(source, {"k"})).path).value();
}

Expected<ElfImage> read(const std::string& bytes) {
  return read_elf(std::as_bytes(std::span(bytes)));
}

template <class T>
T at(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The file's offset of its first relocation, and the address of its dynamic section.
struct Places {
  std::size_t relocation = 0;
  std::uint64_t dynamic = 0;
};
Places places_in(const std::string& bytes) {
  Places found;
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto s = at<Elf64_Shdr>(bytes, header.e_shoff + static_cast<std::size_t>(i) * sizeof(Elf64_Shdr));
    if (s.sh_type == SHT_RELA && found.relocation == 0) found.relocation = s.sh_offset;
    if (s.sh_type == SHT_DYNAMIC) found.dynamic = s.sh_addr;
  }
  BOOST_TEST_REQUIRE(found.relocation != 0U);
  return found;
}

void check_refused(std::string bytes, const Elf64_Rela& changed, const std::string& words) {
  std::memcpy(bytes.data() + places_in(bytes).relocation, &changed, sizeof changed);
  const auto image = read(bytes);
  BOOST_REQUIRE(!image);
  BOOST_TEST(image.error().message.find(words) != std::string::npos, image.error().message);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(elf_image)

#if defined(__x86_64__)
// The loader would read its symbols from wherever the kernel says.
BOOST_AUTO_TEST_CASE(a_relocation_may_not_change_the_loaders_own_table) {
  const std::string bytes = object_of(kCallsExp);
  BOOST_REQUIRE(read(bytes));
  const Places places = places_in(bytes);
  auto relocation = at<Elf64_Rela>(bytes, places.relocation);
  for (const std::uint64_t offset : {places.dynamic + 8, places.dynamic + 4, places.dynamic}) {
    relocation.r_offset = offset;
    check_refused(bytes, relocation, "the loader's own table");
  }
}

BOOST_AUTO_TEST_CASE(a_relocation_is_of_the_kinds_that_kernels_need) {
  const std::string bytes = object_of(kCallsExp);
  auto relocation = at<Elf64_Rela>(bytes, places_in(bytes).relocation);
  for (const std::uint64_t kind : {R_X86_64_COPY, R_X86_64_PC32, R_X86_64_SIZE64}) {
    relocation.r_info = ELF64_R_INFO(ELF64_R_SYM(relocation.r_info), kind);
    check_refused(bytes, relocation, "of a kind that kernels do not need");
  }
}

// Two kernels whose bodies are exchanged compute something else, though their code is the same.
BOOST_AUTO_TEST_CASE(which_code_a_launch_runs_is_part_of_its_identity) {
  const auto hash = [](const std::string& first, const std::string& second) {
    return cpu_test::compiled(cpu_test::by_hand("extern \"C\" void " + first +
                                                    "(float* y) { y[0] = 1; }\nextern \"C\" void " + second +
                                                    "(float* y) { y[0] = 2; }\n",
                                                {"k"}))
        .machine_code;
  };
  BOOST_TEST(hash("k", "other") == hash("k", "renamed"));
  BOOST_TEST(hash("k", "other") != hash("other", "k"));
}
#endif

BOOST_AUTO_TEST_SUITE_END()
