// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cuda_cpp/toolkit.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "support/command.hpp"

using namespace cultivar;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(cuda_includes)

BOOST_AUTO_TEST_CASE(the_toolkits_headers_alone_may_be_included) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "cuda");
  std::ofstream(folder / "cuda_bf16.h") << "\n";
  std::ofstream(folder / "cuda/barrier") << "\n";
  std::ofstream(fs::path(folder.path()).string() + ".secret") << "\n";
  const auto odd = [&](const std::string& source) { return include_beyond(source, {folder.path()}); };
  BOOST_TEST(odd("#include <cuda_bf16.h>\n  #  include \"cuda/barrier\"\n#define X 1\n#if X\n#endif\n") ==
             "");
  const std::string out = "../" + folder.path().filename().string() + ".secret";
  for (const std::string& source :
       {std::string("#include \"/etc/passwd\"\n"), std::string("#include \"" + out + "\"\n"),
        std::string("#include </etc/passwd>"), std::string("#inc\\\nlude \"/etc/passwd\"\n"),
        std::string("#inc\\ \nlude \"/etc/passwd\"\n"), std::string("#/**/include \"/etc/passwd\"\n"),
        std::string("%:include \"/etc/passwd\"\n"), std::string("/**/ # /**/ include <x>\n"),
        std::string("#define F \"/etc/passwd\"\n#include F\n"), std::string("#include /**/ <cuda_bf16.h>\n"),
        std::string("#embed \"/etc/passwd\"\n"), std::string("#include <cuda>\n"),
        std::string("#include_next <cuda_bf16.h>\n"), std::string("#if __has_include(\"/etc/passwd\")\n"),
        std::string("#include <cuda_bf16.h\n")})
    BOOST_TEST(odd(source) != "", source);
  fs::remove(folder.path().string() + ".secret");
}

BOOST_AUTO_TEST_SUITE_END()
