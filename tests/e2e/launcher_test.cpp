// SPDX-License-Identifier: Apache-2.0
// The decisions of the launcher on a simulated machine: what it installs, as which user, and when it builds.
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>

#include "support/command.hpp"
#include "support/contains.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

// A source tree with the real launcher, and a PATH whose package and build tools only record that they were
// called. The packages listed in `installed` are present; `apt-get install` adds to them.
struct Machine {
  TemporaryFolder folder;
  fs::path tree = folder / "tree", tools = folder / "tools", calls = folder / "calls",
           installed = folder / "installed";

  explicit Machine(const std::string& user) {
    fs::create_directories(tree);
    fs::copy_file(fs::path(CULTIVAR_SOURCE_DIR) / "cultivar", tree / "cultivar");
    for (const char* file : {"CMakeLists.txt", "CMakePresets.json", "cmake/a", "evaluators/a.cpp",
                             "population/a.cpp", "operators/a.cpp", "engine/a.cpp", "tests/a.cpp"})
      write_text(tree / file, "x\n");
    write_text(calls, "");
    write_text(installed, "");
    tool("id", "echo " + user);
    tool("dpkg-query",
         "shift 3\nfor p; do grep -qx \"$p\" " + installed.string() +
             " && echo \"$p:amd64 installed\" || { echo missing >&2; bad=1; }; done; exit ${bad:-0}");
    tool("apt-get",
         note("apt-get") +
             "case \"$*\" in *' install '*) shift; for w; do case $w in -*|install) ;; *) echo $w >>" +
             installed.string() + ";; esac; done;; esac");
    tool("cmake",
         note("cmake") +
             "case $1 in --preset) mkdir -p build/$2; touch build/$2/build.ninja; for o; do case $o in "
             "-DCULTIVAR_TESTS=*) echo CULTIVAR_TESTS:BOOL=${o#*=} >build/$2/CMakeCache.txt;; esac; done;; "
             "--build) "
             "echo '[1/1] Building'; mkdir -p $2/bin; printf '#!/bin/sh\\necho program \"$@\"; exit 7\\n' "
             ">$2/bin/cultivar; chmod +x $2/bin/cultivar;; esac");
    tool("ctest", note("ctest") + "echo tests; exit 8");
  }

  void tool(const std::string& name, const std::string& script) {
    write_text(tools / name, "#!/bin/bash\n" + script + "\n", true);
  }
  std::string note(const std::string& name) const {
    return "echo \"" + name + " $*\" >>" + calls.string() + "\n";
  }
  void without_sudo() { tool("sudo", "exit 1"); }
  void with_sudo() { tool("sudo", note("sudo") + "[ \"$1\" = -n ] && shift; exec \"$@\""); }
  void has_everything() {
    write_text(
        installed,
        "g++\ncmake\nninja-build\nmake\npkgconf\nlibtbb-dev\nlibeigen3-dev\nlibyaml-cpp-dev\nlibmuparser-"
        "dev\n"
        "nlohmann-json3-dev\nlibcli11-dev\nlibfmt-dev\nlibexpected-dev\nlibsqlite3-dev\nlibsqlitecpp-dev\n"
        "libssl-dev\nlibcurl4-openssl-dev\nlibboost-dev\nlibkainjow-mustache-dev\nlibffi-dev\nlibseccomp-"
        "dev\nbubblewrap\nlibboost-test-dev\n");
  }
  CommandResult start(std::vector<std::string> arguments, const fs::path& cwd = "/") {
    arguments.insert(arguments.begin(), (tree / "cultivar").string());
    return run_command(arguments,
                       {.folder = cwd, .environment = {{"PATH", tools.string() + ":/usr/bin:/bin"}}});
  }
  bool called(const std::string& words) const { return read_text(calls).find(words) != std::string::npos; }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(launcher)

BOOST_AUTO_TEST_CASE(the_script_is_well_formed) {
  const auto result = run_command({"bash", "-n", std::string(CULTIVAR_SOURCE_DIR) + "/cultivar"});
  BOOST_TEST(result.exit == 0);
  BOOST_TEST(result.err == "");
}

BOOST_AUTO_TEST_CASE(as_root_it_says_what_and_why_then_installs_builds_and_hands_over) {
  Machine machine("0");
  const auto result = machine.start({"tasks", "two words"});
  BOOST_TEST(result.exit == 7);
  BOOST_TEST(result.out == "program tasks two words\n");
  BOOST_TEST(contains(result.err, "libtbb-dev           runs the search pipeline"));
  BOOST_TEST(machine.called("apt-get -q update"));
  BOOST_TEST(machine.called("--no-install-recommends"));
  BOOST_TEST(machine.called("install g++ cmake ninja-build make"));
  BOOST_TEST(machine.called("cmake --preset release"));
  BOOST_TEST(machine.called("--target programs"));
}

BOOST_AUTO_TEST_CASE(only_what_is_missing_is_installed) {
  Machine machine("0");
  machine.has_everything();
  write_text(machine.installed, read_text(machine.installed).substr(4));  // all but g++
  BOOST_TEST(machine.start({"tasks"}).exit == 7);
  BOOST_TEST(machine.called("install g++\n"));
}

BOOST_AUTO_TEST_CASE(a_machine_that_has_everything_is_never_asked_for_packages) {
  Machine machine("0");
  machine.has_everything();
  BOOST_TEST(machine.start({"tasks"}).exit == 7);
  BOOST_TEST(!machine.called("apt-get"));
}

BOOST_AUTO_TEST_CASE(a_newer_launcher_asks_for_its_packages_again) {
  Machine machine("0");
  machine.has_everything();
  BOOST_TEST(machine.start({"tasks"}).exit == 7);
  write_text(machine.installed, read_text(machine.installed).substr(4));  // as if the list had grown by g++
  fs::last_write_time(machine.tree / "cultivar", fs::file_time_type::clock::now() + std::chrono::seconds(2));
  BOOST_TEST(machine.start({"tasks"}).exit == 7);
  BOOST_TEST(machine.called("install g++\n"));
}

BOOST_AUTO_TEST_CASE(without_root_or_sudo_it_prints_the_exact_command_and_stops_with_3) {
  Machine machine("1000");
  machine.without_sudo();
  const auto result = machine.start({"tasks"});
  BOOST_TEST(result.exit == 3);
  BOOST_TEST(contains(
      result.err, "apt-get update && apt-get install --no-install-recommends g++ cmake ninja-build make"));
  BOOST_TEST(read_text(machine.calls) == "");
  BOOST_TEST(!fs::exists(machine.tree / "build/release/bin/cultivar"));
}

BOOST_AUTO_TEST_CASE(sudo_that_needs_no_password_is_used) {
  Machine machine("1000");
  machine.with_sudo();
  BOOST_TEST(machine.start({"tasks"}).exit == 7);
  BOOST_TEST(machine.called("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get"));
}

BOOST_AUTO_TEST_CASE(a_failing_installation_stops_with_3_and_shows_the_log) {
  Machine machine("0");
  machine.tool("apt-get", "echo 'E: no such host'; exit 100");
  const auto result = machine.start({"tasks"});
  BOOST_TEST(result.exit == 3);
  BOOST_TEST(contains(result.err, "E: no such host"));
}

BOOST_AUTO_TEST_CASE(the_second_start_goes_straight_to_the_program) {
  Machine machine("0");
  machine.start({"tasks"});
  write_text(machine.calls, "");
  const auto result = machine.start({"status"});
  BOOST_TEST(result.exit == 7);
  BOOST_TEST(result.err == "");
  BOOST_TEST(read_text(machine.calls) == "");
}

BOOST_AUTO_TEST_CASE(a_changed_or_added_source_is_built_before_the_program_starts) {
  Machine machine("0");
  machine.start({"tasks"});
  write_text(machine.calls, "");
  write_text(machine.tree / "engine/new.cpp", "y\n");
  BOOST_TEST(machine.start({"tasks"}).exit == 7);
  BOOST_TEST(machine.called("cmake --build"));
  BOOST_TEST(!machine.called("cmake --preset"));
}

BOOST_AUTO_TEST_CASE(a_compile_error_is_shown_and_stops_with_1) {
  Machine machine("0");
  machine.tool(
      "cmake",
      "[ $1 = --preset ] && exit 0\necho '[1/2] x'; echo 'FAILED: a.o'; echo 'a.cpp:3: error: no'; exit 1");
  const auto result = machine.start({"tasks"});
  BOOST_TEST(result.exit == 1);
  BOOST_TEST(contains(result.err, "a.cpp:3: error: no"));
  BOOST_TEST(contains(result.err, "build.log"));
  BOOST_TEST(machine.start({"tasks"}).exit == 1);  // and again: nothing was marked as built
}

BOOST_AUTO_TEST_CASE(it_works_through_a_link_from_another_folder) {
  Machine machine("0");
  fs::create_symlink(machine.tree / "cultivar", machine.folder / "link");
  const auto result = run_command({(machine.folder / "link").string(), "x"},
                                  {.folder = machine.folder.path(),
                                   .environment = {{"PATH", machine.tools.string() + ":/usr/bin:/bin"}}});
  BOOST_TEST(result.out == "program x\n");
}

BOOST_AUTO_TEST_CASE(a_tree_that_was_moved_is_configured_anew) {
  Machine machine("0");
  machine.start({"tasks"});
  write_text(machine.calls, "");
  const fs::path moved = machine.folder / "moved";
  fs::rename(machine.tree, moved);
  machine.tree = moved;
  BOOST_TEST(machine.start({"tasks"}).exit == 7);
  BOOST_TEST(machine.called("cmake --preset release"));
}

BOOST_AUTO_TEST_CASE(tests_and_their_library_are_left_out_until_they_are_asked_for) {
  Machine machine("0");
  machine.start({"tasks"});
  BOOST_TEST(!machine.called("libboost-test-dev"));
  BOOST_TEST(machine.called("-DCULTIVAR_TESTS=OFF"));
  BOOST_TEST(machine.start({"test"}).exit == 8);
  BOOST_TEST(machine.called(
      "install libboost-test-dev opencl-headers ocl-icd-opencl-dev pocl-opencl-icd libclblast-dev\n"));
  BOOST_TEST(machine.called("-DCULTIVAR_TESTS=ON"));
  write_text(machine.calls, "");
  write_text(machine.tree / "engine/new.cpp", "y\n");
  BOOST_TEST(machine.start({"tasks"}).exit == 7);
  BOOST_TEST(machine.called("--target programs"));
  BOOST_TEST(!machine.called("CULTIVAR_TESTS"));
}

BOOST_AUTO_TEST_CASE(ccache_is_used_where_it_is) {
  Machine machine("0");
  machine.tool("ccache", "exit 1");
  machine.start({"tasks"});
  BOOST_TEST(machine.called("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"));
}

BOOST_AUTO_TEST_CASE(package_prints_the_package_that_it_made) {
  Machine machine("0");
  machine.tool(
      "cpack",
      "echo 'CPack: Create package'; echo \"CPack: - package: $PWD/cultivar_1_amd64.deb generated.\"");
  const auto result = machine.start({"package"});
  BOOST_TEST(result.exit == 0, result.err);
  BOOST_TEST(result.out == (machine.tree / "build/release/cultivar_1_amd64.deb").string() + "\n");
  BOOST_TEST(machine.called("dpkg-dev"));
  machine.tool("cpack", "echo 'no shared library information'; exit 1");
  const auto failed = machine.start({"package"});
  BOOST_TEST(failed.exit == 1);
  BOOST_TEST(contains(failed.err, "no shared library information"));
}

BOOST_AUTO_TEST_CASE(test_builds_everything_and_ends_as_the_suite_ends) {
  Machine machine("0");
  const auto result = machine.start({"test", "--label", "unit", "-R", "yaml"});
  BOOST_TEST(result.exit == 8);
  BOOST_TEST(machine.called("--target all"));
  BOOST_TEST(machine.called("-L unit -R yaml"));
}

BOOST_AUTO_TEST_SUITE_END()
