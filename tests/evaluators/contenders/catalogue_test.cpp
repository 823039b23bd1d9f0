// SPDX-License-Identifier: Apache-2.0
#include "evaluators/contenders/catalogue.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/system/error.hpp"
#include "evaluators/target/language.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using cultivar::testing::TemporaryFolder;

namespace {

std::string refused(const std::string& name, const std::filesystem::path& programs,
                    const std::vector<std::string>& sources = {}) {
  try {
    return "found " + find_contender_library(name, programs, programs, sources).library.string();
  } catch (const InputError& e) {
    return e.what();
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(catalogue)

BOOST_AUTO_TEST_CASE(what_was_not_built_is_absent_with_a_reason) {
  const TemporaryFolder installation;
  std::filesystem::create_directories(installation / "bin");
  for (const KnownContender& known : known_contenders(installation / "bin")) {
    BOOST_TEST(known.library.empty());
    BOOST_TEST(known.absent != "");
    BOOST_TEST(contains(refused(known.name, installation / "bin"),
                        "the contender '" + known.name + "' is not available: "));
  }
  BOOST_TEST(known_contenders(installation / "bin").size() == 6U);
}

BOOST_AUTO_TEST_CASE(a_library_that_lies_beside_the_programs_is_known_by_its_name) {
  const TemporaryFolder installation;
  std::filesystem::create_directories(installation / "bin");
  std::filesystem::create_directories(installation / "lib");
  testing::write_text(installation / "lib/libcultivar-contender-mine.so", "");
  testing::write_text(installation / "lib/libcultivar-contender-cudnn.so", "");
  testing::write_text(installation / "lib/libsomething.so", "");
  BOOST_TEST(refused("mine", installation / "bin") ==
             "found " + (installation / "lib/libcultivar-contender-mine.so").string());
  BOOST_TEST(refused("cudnn", installation / "bin") ==
             "found " + (installation / "lib/libcultivar-contender-cudnn.so").string());
  BOOST_TEST(known_contenders(installation / "bin").size() == 7U);
}

BOOST_AUTO_TEST_CASE(an_installation_has_its_libraries_in_a_folder_of_their_own) {
  const TemporaryFolder prefix;
  std::filesystem::create_directories(prefix / "libexec/cultivar");
  std::filesystem::create_directories(prefix / "lib/cultivar");
  testing::write_text(prefix / "lib/cultivar/libcultivar-contender-mine.so", "");
  BOOST_TEST(refused("mine", prefix / "libexec/cultivar") ==
             "found " + (prefix / "lib/cultivar/libcultivar-contender-mine.so").string());
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_answered_with_all_that_there_is) {
  const TemporaryFolder installation;
  std::filesystem::create_directories(installation / "bin");
  const std::string answer = refused("eigne", installation / "bin", {"eigen"});
  for (const char* part : {"unknown contender 'eigne' (did you mean 'eigen'?)", "eigen: a source of the task",
                           "cublas (absent): ", "cudnn (absent): ", "flash_attention_3 (absent): ",
                           "a library (.so), or of a Python program (.py)"})
    BOOST_TEST(contains(answer, part), answer);
}

BOOST_AUTO_TEST_CASE(a_path_is_a_path_and_must_exist) {
  const TemporaryFolder installation;
  BOOST_TEST(names_a_library_file("here/libmine.so"));
  BOOST_TEST(names_a_library_file("./libmine.so.1"));
  BOOST_TEST(names_a_library_file("libmine.so.12.3"));
  for (const char* other : {"libmine.so.txt", "mine.so.", "mine.sox", "a.so.d/mine.cpp"})
    BOOST_TEST(!names_a_library_file(other), other);
  BOOST_TEST(name_of_library("/x/libmine.so.12.3") == "mine");
  BOOST_TEST(!names_a_library_file("mine"));
  BOOST_TEST(refused("libmine.so", installation.path()) ==
             "no such file: " + (installation / "libmine.so").string() + " (check the path)");
  testing::write_text(installation / "libmine.so", "");
  BOOST_TEST(refused("libmine.so", installation.path()) == "found " + (installation / "libmine.so").string());
}

BOOST_AUTO_TEST_CASE(pytorch_and_python_programs_are_run_by_the_library_that_hosts_python) {
  const TemporaryFolder installation;
  std::filesystem::create_directories(installation / "bin");
  std::filesystem::create_directories(installation / "lib");
  testing::write_text(installation / "mine.py", "");
  BOOST_TEST(contains(refused("mine.py", installation.path()), "mine.py cannot be run: "));
  const auto host = installation / "lib/libcultivar-contender-python.so";
  testing::write_text(host, "");
  const auto found = [&](const std::string& text) {
    return find_contender_library(text, installation.path(), installation / "bin", {});
  };
  BOOST_TEST(found("torch").library == host);
  BOOST_TEST(found("torch").program == "torch");
  BOOST_TEST(found("torch_compile").program == "torch_compile");
  BOOST_TEST(found("mine.py").library == host);
  BOOST_TEST(found("mine.py").program == (installation / "mine.py").string());
  BOOST_TEST(name_of_library("/x/mine.py") == "mine");
  BOOST_TEST(contains(refused("none.py", installation.path()), "no such file: "));
  BOOST_TEST(known_contenders(installation / "bin").size() == 6U);
  BOOST_TEST(!names_a_program(".py"));
  BOOST_TEST(!names_a_program("mine.pyc"));
}

BOOST_AUTO_TEST_CASE(a_python_file_with_a_manifest_is_a_kernel_and_one_without_is_a_program) {
  const std::string task = CULTIVAR_SOURCE_DIR "/configs/tasks/softmax";
  BOOST_TEST(names_a_program(task + "/contenders/triton.py"));
  BOOST_TEST(!names_a_program(task + "/seeds/triton_rows.py"));
  BOOST_TEST((language_of_file(task + "/contenders/triton.py") == nullptr));
  BOOST_TEST(is_source_for(target_named("cuda"), task + "/seeds/triton_rows.py"));
  BOOST_TEST(!is_source_for(target_named("cpu"), task + "/seeds/triton_rows.py"));
}

BOOST_AUTO_TEST_SUITE_END()
