// SPDX-License-Identifier: Apache-2.0
#include "evaluators/variant/source_files.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "evaluators/variant/example.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using example::attention;
using example::replaced;
using testing::TemporaryFolder;
using testing::write_text;
namespace fs = std::filesystem;

namespace {

std::string listing(const std::string& headers) {
  return replaced(example::cpu, "launch:\n", "headers: " + headers + "\nlaunch:\n");
}
const std::string including = "#include \"tile.hpp\"\n#include \"more.inl\"\n";
const std::string main_file = listing("[tile.hpp, more.inl]") + including;
const std::string tile = "#pragma once\nint tile;\n", more = "int more;\n";
const std::string both =
    main_file + "//// file: tile.hpp ////\n" + tile + "//// file: more.inl ////\n" + more;

std::string trouble_with(const std::string& source) {
  const auto variant = make_variant(source, attention());
  return variant ? "" : variant.error().text();
}
std::string id_of(const std::string& source) {
  const auto variant = make_variant(source, attention());
  BOOST_REQUIRE_MESSAGE(variant, (variant ? "" : variant.error().text()));
  return variant->id;
}

struct Folder {
  TemporaryFolder folder;
  fs::path own, file;
  explicit Folder(const char* below = "") : own(folder / below), file(own / "kernel.cpp") {
    write_text(file, main_file);
    write_text(own / "tile.hpp", tile);
    write_text(own / "more.inl", more);
  }
  std::string trouble() const {
    try {
      load_variant(file, attention());
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(source_files)

BOOST_AUTO_TEST_CASE(a_source_splits_at_its_marker_lines_and_folds_back_verbatim) {
  const SourceFiles files = split_source(both);
  BOOST_TEST(files.main == main_file);
  BOOST_TEST_REQUIRE(files.headers.size() == 2u);
  BOOST_TEST(files.headers[0].name == "tile.hpp");
  BOOST_TEST(files.headers[0].text == tile);
  BOOST_TEST(files.headers[1].name == "more.inl");
  BOOST_TEST(files.headers[1].text == more);
  BOOST_TEST(fold_source(files.main, files.headers) == both);
  BOOST_TEST(split_source(example::cpu).main == example::cpu);
  BOOST_TEST(split_source(example::cpu).headers.empty());
  BOOST_TEST(split_source("").main == "");
  // Files that do not end in a newline, and a byte order mark.
  BOOST_TEST(fold_source("a", {{"b.h",
                                "\xef\xbb\xbf"
                                "c",
                                0},
                               {"d.h", "", 0}}) == "a\n//// file: b.h ////\nc\n//// file: d.h ////\n");
}

BOOST_AUTO_TEST_CASE(a_marker_is_a_line_of_its_own_and_nothing_like_it_passes_for_code) {
  BOOST_TEST((marked_file("//// file: a.h ////") == "a.h"));
  BOOST_TEST((marked_file("//// file: a.h ////  \r") == "a.h"));
  for (const char* not_one :
       {" //// file: a.h ////", "//// file: a.h //// x", "//// file: a.h", "//// file:  ////",
        "//// file: a b ////", "// file: a.h ////", "//// file: ////", ""})
    BOOST_TEST(!marked_file(not_one), not_one);
  for (const char* near : {"  //// file: tile.hpp ////\n", "//// file tile.hpp ////\n",
                           "//// file: tile.hpp\n", "//// file: a b ////\n"}) {
    const std::string trouble = trouble_with(example::cpu + "int x;\n" + near);
    BOOST_TEST(contains(trouble, "must be a header marker"), near << trouble);
    const auto lines = std::count(example::cpu.begin(), example::cpu.end(), '\n');
    BOOST_TEST(contains(trouble, "line " + std::to_string(lines + 2)), trouble);
  }
  BOOST_TEST(trouble_with(example::cpu + "int x; //// file: as a remark ////\n") == "");
}

BOOST_AUTO_TEST_CASE(line_ends_and_blanks_do_not_change_the_identity_and_a_headers_text_does) {
  const std::string id = id_of(both);
  std::string windows;
  for (const char c : both) windows += c == '\n' ? std::string("  \r\n") : std::string(1, c);
  BOOST_TEST(id_of(windows) == id);
  BOOST_TEST(split_source(windows).headers.size() == 2u);
  BOOST_TEST(id_of(replaced(both, "//// file: tile", "\n \n//// file: tile")) == id);
  BOOST_TEST(id_of(both + "\n\n") == id);
  BOOST_TEST(id_of(replaced(both, "int more;", "int less;")) != id);
  BOOST_TEST(id_of(replaced(both, "int tile;\n", "\nint tile;\n")) != id);
}

BOOST_AUTO_TEST_CASE(the_manifest_and_the_sections_agree_or_the_refusal_names_line_and_remedy) {
  BOOST_TEST(trouble_with(both) == "");
  const auto missing = trouble_with(main_file + "//// file: tile.hpp ////\n" + tile);
  BOOST_TEST(contains(missing, "lists the header more.inl, but the source has no such section"), missing);
  BOOST_TEST(contains(missing, "'//// file: more.inl ////'"), missing);
  const auto unlisted = trouble_with(both + "//// file: third.h ////\n");
  BOOST_TEST(contains(unlisted, "the manifest does not list the header third.h"), unlisted);
  const auto turned =
      trouble_with(main_file + "//// file: more.inl ////\n" + more + "//// file: tile.hpp ////\n" + tile);
  BOOST_TEST(contains(turned, "a different order"), turned);
  BOOST_TEST(with_listed_order(main_file + "//// file: more.inl ////\n" + more +
                               "//// file: tile.hpp ////\n" + tile) == both);
  BOOST_TEST(with_listed_order(both) == both);
  for (const std::string& other : {both + "//// file: third.h ////\n", main_file, std::string("no manifest")})
    BOOST_TEST(with_listed_order(other) == other);
  const auto twice = trouble_with(both + "//// file: tile.hpp ////\n" + tile);
  BOOST_TEST(contains(twice, "appears twice"), twice);
  const auto unused = trouble_with(replaced(both, "#include \"more.inl\"\n", ""));
  BOOST_TEST(contains(unused, "more.inl is never included"), unused);
  const auto itself =
      trouble_with(replaced(replaced(both, "#include \"more.inl\"\n", ""), more, "#include \"more.inl\"\n"));
  BOOST_TEST(contains(itself, "is never included"), itself);
  BOOST_TEST(trouble_with(replaced(replaced(both, "#include \"more.inl\"\n", ""), tile,
                                   tile + " # include  \"more.inl\"\n")) == "");
}

BOOST_AUTO_TEST_CASE(a_source_of_nothing_but_markers_is_refused_within_moments) {
  const auto listed = parse_manifest(listing("[tile.hpp]"));
  BOOST_REQUIRE(listed);
  std::string source = listing("[tile.hpp]");
  while (source.size() < 1'000'000) source += "//// file: a.h ////\n#include \"a.h\"\n";
  const auto begun = std::chrono::steady_clock::now();
  BOOST_TEST(!check_headers(*listed, source));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  BOOST_TEST(took.count() < 10.0);
}

BOOST_AUTO_TEST_CASE(a_headers_name_is_one_plain_component_and_not_reserved) {
  for (const char* good : {"tile.cuh", "a.h", "Tile_2-b.hpp", "x.inl", "sm90_tile.cuh"})
    BOOST_TEST(header_name_trouble(good) == "", good);
  for (const char* bad : {"", ".h", "tile", "tile.cu", "tile.cpp", "../x.h", "a/b.h", "/etc/passwd", "..",
                          "a..h", "-x.h", "a b.h", "a.h.gch", "a.h\n", "é.h", "a$.h", "a\\b.h",
                          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.h"})
    BOOST_TEST(contains(header_name_trouble(bad), "is not a valid header name"), bad);
  for (const char* taken : {"cuda_fp16.h", "cuda.hpp", "CUDA_bf16.h", "cultivar_reference.hpp", "math.h",
                            "nvrtc.h", "mma.h", "immintrin.h", "cooperative_groups.h", "stdint.h"})
    BOOST_TEST(contains(header_name_trouble(taken), "system or toolkit header"), taken);
  for (const char* list : {"[../x.h]", "[cuda_fp16.h]", "[a.h, a.h]", "[a.cu]"}) {
    const std::string trouble = trouble_with(listing(list));
    BOOST_TEST(contains(trouble, "line 1"), list << ": " << trouble);
    BOOST_TEST(contains(trouble, "headers"), list << ": " << trouble);
  }
  std::string many = "[";
  for (int i = 0; i < 17; ++i) many += (i == 0 ? "h" : ", h") + std::to_string(i) + ".h";
  BOOST_TEST(contains(trouble_with(listing(many + "]")), "the limit of 16"));
  const auto exported =
      trouble_with(replaced(replaced(both, "headers: [tile.hpp", "headers: [attention_forward.hpp"),
                            "file: tile.hpp", "file: attention_forward.hpp") +
                   "#include \"attention_forward.hpp\"\n");
  BOOST_TEST(contains(exported, "exported"), exported);
}

BOOST_AUTO_TEST_CASE(the_manifest_lists_its_headers_in_order) {
  const auto manifest = parse_manifest(both);
  BOOST_REQUIRE(manifest);
  BOOST_TEST((manifest->headers == std::vector<std::string>{"tile.hpp", "more.inl"}));
}

BOOST_AUTO_TEST_CASE(a_line_of_the_text_has_a_place_in_a_file) {
  const auto lines = static_cast<int>(std::count(main_file.begin(), main_file.end(), '\n'));
  BOOST_TEST(place_of(both, "kernel.cpp", 3) == "kernel.cpp:3");
  BOOST_TEST(place_of(both, "kernel.cpp", lines) == "kernel.cpp:" + std::to_string(lines));
  BOOST_TEST(place_of(both, "kernel.cpp", lines + 2) == "tile.hpp:1");
  BOOST_TEST(place_of(both, "kernel.cpp", lines + 5) == "more.inl:1");
}

BOOST_AUTO_TEST_CASE(headers_beside_the_file_are_read_with_it_and_the_one_text_is_the_same_variant) {
  const Folder there;
  const Variant variant = load_variant(there.file, attention());
  BOOST_TEST(variant.source == both);
  BOOST_TEST(variant.id == id_of(both));
  // Another system's line ends, and no newline at the end.
  write_text(there.folder / "tile.hpp", "\xef\xbb\xbf#pragma once\r\nint tile;");
  BOOST_TEST(load_variant(there.file, attention()).id == variant.id);
  // The one text as a file: what lies beside it does not matter.
  write_text(there.folder / "one.cpp", both);
  write_text(there.folder / "tile.hpp", "int other;\n");
  BOOST_TEST(load_variant(there.folder / "one.cpp", attention()).id == variant.id);
}

BOOST_AUTO_TEST_CASE(headers_that_tasks_share_lie_beside_the_task_folders) {
  const Folder there("mine/seeds/wide");  // any depth below the folder with the task.yaml
  const fs::path shared = there.folder / "headers/more.inl";
  fs::create_directory(there.folder / "headers");
  fs::rename(there.own / "more.inl", shared);
  BOOST_TEST(contains(there.trouble(), "none of "), there.trouble());  // not a task yet
  write_text(there.folder / "mine/task.yaml", "");
  BOOST_TEST(load_variant(there.file, attention()).source == both);
  write_text(shared, "int a;\nint \xff;\n");
  BOOST_TEST(contains(there.trouble(), shared.string() + ":2: a character is not valid UTF-8"),
             there.trouble());
  write_text(there.own / "more.inl", more);  // comes first
  BOOST_TEST(load_variant(there.file, attention()).source == both);
  fs::remove(there.own / "more.inl");
  fs::rename(shared, there.folder / "outside.inl");
  fs::create_symlink("../outside.inl", shared);
  BOOST_TEST(contains(there.trouble(), shared.string() + ": is not a regular file"), there.trouble());
  fs::remove(shared);
  BOOST_TEST(contains(there.trouble(),
                      "none of " + (there.own / "more.inl").string() + ", " + shared.string() + ", "),
             there.trouble());
  write_text(shared, more);
  write_text(there.file, replaced(main_file, ", more.inl]", "]"));
  BOOST_TEST(contains(there.trouble(), "includes more.inl, which the manifest does not list"),
             there.trouble());
}

BOOST_AUTO_TEST_CASE(a_file_that_was_copied_from_its_task_finds_the_headers_of_the_task) {
  const Folder there("anywhere");
  Task task = attention();
  task.folder = there.folder / "tasks/mine";
  fs::create_directories(task.folder / "seeds");
  fs::create_directory(there.folder / "tasks/headers");
  const auto move = [&](const char* name, const fs::path& to) { fs::rename(there.own / name, to / name); };
  move("tile.hpp", task.folder / "seeds");
  move("more.inl", there.folder / "tasks/headers");
  BOOST_TEST(load_variant(there.file, task).source == both);
  BOOST_TEST(read_source(there.file, task.folder) == both);
  BOOST_CHECK_EXCEPTION(read_source(there.file), InputError, [&](const InputError& error) {
    return contains(error.what(), (there.own / "tile.hpp").string() + " does not exist (copy it there)");
  });
  write_text(there.own / "more.inl", "int own;\n");  // comes first
  BOOST_TEST(contains(load_variant(there.file, task).source, "int own;"));
  fs::remove(there.own / "more.inl");
  const fs::path shared = there.folder / "tasks/headers/more.inl";
  write_text(shared, "int a;\nint \xff;\n");
  const auto refused = [&](const std::string& words) {
    BOOST_CHECK_EXCEPTION(load_variant(there.file, task), InputError,
                          [&](const InputError& error) { return contains(error.what(), words); });
  };
  refused(shared.string() + ":2: a character is not valid UTF-8");
  fs::remove(shared);
  refused("none of " + (there.own / "more.inl").string() + ", " + (task.folder / "seeds/more.inl").string() +
          ", " + shared.string() + " exists (copy it to one of these)");
}

BOOST_AUTO_TEST_CASE(what_a_folder_lacks_or_leads_out_of_it_is_an_error_that_names_the_file) {
  const TemporaryFolder elsewhere;
  write_text(elsewhere / "secret.hpp", "int secret;\n");
  {
    const Folder there;
    fs::remove(there.folder / "more.inl");
    BOOST_TEST(contains(there.trouble(), "lists the header more.inl"), there.trouble());
  }
  {
    const Folder there;
    fs::remove(there.folder / "more.inl");
    fs::create_symlink(elsewhere / "secret.hpp", there.folder / "more.inl");
    BOOST_TEST(contains(there.trouble(), "in that folder"), there.trouble());
    fs::remove(there.folder / "more.inl");
    fs::create_symlink("/dev/zero", there.folder / "more.inl");
    BOOST_TEST(contains(there.trouble(), "in that folder"), there.trouble());
    fs::remove(there.folder / "more.inl");
    fs::create_symlink("tile.hpp", there.folder / "more.inl");
    BOOST_TEST(there.trouble() == "");
    fs::remove(there.folder / "more.inl");
    fs::create_directory(there.folder / "more.inl");
    BOOST_TEST(contains(there.trouble(), "in that folder"), there.trouble());
  }
  {
    const Folder there;
    write_text(there.folder / "more.inl", "int a;\n//// file: tile.hpp ////\n");
    BOOST_TEST(contains(there.trouble(), "more.inl:2: a header must not contain a `//// file` line"),
               there.trouble());
    write_text(there.folder / "more.inl", "int a;\n//// file tile.hpp\n");
    BOOST_TEST(contains(there.trouble(), "more.inl:2: a line that begins"), there.trouble());
    write_text(there.folder / "more.inl", "int a;\nint \xff;\n");
    BOOST_TEST(contains(there.trouble(), "more.inl:2: a character is not valid UTF-8"), there.trouble());
    write_text(there.folder / "more.inl", std::string(most_source_bytes + 1, ' '));
    BOOST_TEST(contains(there.trouble(), "is longer"), there.trouble());
    write_text(there.folder / "more.inl", std::string(most_source_bytes - 10, ' '));
    BOOST_TEST(contains(there.trouble(), "longer than"), there.trouble());
  }
  {
    const Folder there;
    write_text(there.file, replaced(main_file, "#include \"more.inl\"\n", ""));
    BOOST_CHECK_EXCEPTION(read_source(there.file), InputError, [](const InputError& error) {
      return contains(error.what(), "more.inl:1: the header more.inl is never included");
    });
  }
  {
    const Folder there;
    write_text(there.folder / "third.hpp", "int third;\n");
    write_text(there.file, main_file + "#include \"third.hpp\"\n");
    const auto lines = std::count(main_file.begin(), main_file.end(), '\n');
    BOOST_TEST(contains(there.trouble(), "kernel.cpp:" + std::to_string(lines + 1) + ": includes third.hpp"),
               there.trouble());
    BOOST_TEST(contains(there.trouble(), "add it to `headers"), there.trouble());
  }
}

BOOST_AUTO_TEST_SUITE_END()
