// SPDX-License-Identifier: Apache-2.0
#include "evaluators/yaml/strict_yaml.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "evaluators/yaml/nearest_name.hpp"

using namespace cultivar;

namespace {

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_error(const std::string& text, int first_line = 1) {
  return error_of([&] { parse_yaml(text, "f.yaml", first_line); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(strict_yaml)

BOOST_AUTO_TEST_CASE(values_are_read_with_their_types) {
  YamlMap map = parse_yaml("a: 1\nb: 2.5\nc: text\nd: true\ne: [x, y]\nf: {g: -3}\n", "f.yaml").map();
  BOOST_TEST(map.require("a").integer() == 1);
  BOOST_TEST(map.require("b").number() == 2.5);
  BOOST_TEST(map.require("c").string() == "text");
  BOOST_TEST(map.require("d").boolean());
  BOOST_TEST(map.require("e").strings().size() == 2u);
  YamlNode f = map.require("f");
  YamlMap inner = f.map();
  BOOST_TEST(inner.require("g").integer() == -3);
  BOOST_TEST(inner.require("g").path() == "f.g");
  BOOST_TEST(inner.require("g").line() == 6);
  BOOST_TEST(!map.optional("z").has_value());
  BOOST_CHECK_NO_THROW(inner.finish());
  BOOST_CHECK_NO_THROW(map.finish());
}

BOOST_AUTO_TEST_CASE(an_unknown_key_gives_file_line_and_nearest_name) {
  YamlMap map = parse_yaml("name: x\nlaunhc: []\n", "f.yaml").map();
  map.require("name");
  map.optional("launch");
  map.optional("let");
  BOOST_TEST(error_of([&] { map.finish(); }) ==
             "f.yaml:2: unknown key 'launhc' (did you mean 'launch'? known: launch, let, name)");
}

BOOST_AUTO_TEST_CASE(an_unknown_nested_key_gives_its_path) {
  YamlMap map = parse_yaml("a:\n  - b: 1\n    zz: 2\n", "f.yaml").map();
  YamlMap item = map.require("a").items().at(0).map();
  item.require("b");
  BOOST_TEST(error_of([&] { item.finish(); }) == "f.yaml:3: a[0]: unknown key 'zz' (known: b)");
}

BOOST_AUTO_TEST_CASE(a_duplicate_key_is_an_error_at_any_depth_and_in_any_style) {
  BOOST_TEST(parse_error("a: 1\nb: 2\na: 3\n") ==
             "f.yaml:3: the key 'a' is given twice, first on line 1 (remove one)");
  BOOST_TEST(parse_error("x: {a: 1, a: 2}\n") ==
             "f.yaml:1: the key 'a' is given twice, first on line 1 (remove one)");
  BOOST_TEST(parse_error("x:\n  - {b: 1}\n  - c: 1\n    \"c\": 2\n") ==
             "f.yaml:4: the key 'c' is given twice, first on line 3 (remove one)");
}

BOOST_AUTO_TEST_CASE(a_missing_key_names_the_map_and_a_misspelt_candidate) {
  YamlMap map = parse_yaml("\n\nnmae: x\n", "f.yaml").map();
  BOOST_TEST(error_of([&] { map.require("name"); }) ==
             "f.yaml:3: 'name' is missing (did you misspell it as 'nmae'?)");
  BOOST_TEST(error_of([&] { map.require("launch"); }) == "f.yaml:3: 'launch' is missing (add it)");
}

BOOST_AUTO_TEST_CASE(a_wrong_type_says_what_was_expected_and_what_is_there) {
  YamlMap map = parse_yaml("a: x\nb: [1]\nc: 5\nd: yes\ne:\nf: {g: 1}\nh: 1.5\ni: nan\n", "f.yaml").map();
  BOOST_TEST(error_of([&] { map.require("a").integer(); }) == "f.yaml:1: a: must be a whole number, not 'x'");
  BOOST_TEST(error_of([&] { map.require("b").string(); }) == "f.yaml:2: b: must be text, not a list");
  BOOST_TEST(error_of([&] { map.require("c").integer(6); }) == "f.yaml:3: c: must be at least 6, not 5");
  BOOST_TEST(error_of([&] { map.require("c").integer(1, 4); }) ==
             "f.yaml:3: c: must be between 1 and 4, not 5");
  BOOST_TEST(error_of([&] { map.require("d").boolean(); }) ==
             "f.yaml:4: d: must be true or false, not 'yes'");
  BOOST_TEST(error_of([&] { map.optional("e"); }) ==
             "f.yaml:5: e: has no value (give one or remove the key)");
  BOOST_TEST(error_of([&] { map.require("f").items(); }) == "f.yaml:6: f: must be a list, not a map");
  BOOST_TEST(error_of([&] { map.require("h").integer(); }) ==
             "f.yaml:7: h: must be a whole number, not '1.5'");
  BOOST_TEST(error_of([&] { map.require("i").number(); }) == "f.yaml:8: i: must be a number, not 'nan'");
  BOOST_TEST(error_of([&] { map.require("a").map(); }) == "f.yaml:1: a: must be a map (key: value), not 'x'");
}

BOOST_AUTO_TEST_CASE(a_choice_outside_the_list_names_the_nearest) {
  YamlMap map = parse_yaml("target: cudda\n", "f.yaml").map();
  BOOST_TEST(error_of([&] {
               map.require("target").one_of({"cpu", "cuda"});
             }) == "f.yaml:1: target: 'cudda' is not allowed here (did you mean 'cuda'? known: cpu, cuda)");
}

BOOST_AUTO_TEST_CASE(broken_yaml_is_an_error_with_its_line) {
  const std::string message = parse_error("a: 1\nb: [1, 2\nc: 3\n");
  BOOST_TEST(message.find("f.yaml:") == 0u);
  BOOST_TEST(message.find("is not valid YAML") != std::string::npos);
  BOOST_TEST(parse_error("a: {\n").find("f.yaml:") == 0u);
  BOOST_TEST(parse_error("a:\n\tb: 1\n").find("not tabs") != std::string::npos);
  BOOST_TEST(parse_error("a: \"open\n") != "no error");
}

BOOST_AUTO_TEST_CASE(anchors_aliases_tags_and_second_documents_are_refused) {
  BOOST_TEST(parse_error("a: &x 1\nb: *x\n").find("f.yaml:1: anchors") == 0u);
  BOOST_TEST(parse_error("a: *x\n") != "no error");
  BOOST_TEST(parse_error("a: !!int 1\n").find("f.yaml:1: the tag") == 0u);
  for (const char* text : {"a: 1\n---\nb: 2\n", "a: 1\n---\n", "a: 1\n--- {b: 2\n"})
    BOOST_TEST(
        parse_error(text).find("f.yaml:2: more than one document: another begins here (put each") == 0u,
        parse_error(text));
  BOOST_TEST(parse_error("---\na: 1\n...\n---\nb: 2\n---\nc: 3\n", 10).find("f.yaml:13: more than one") ==
             0u);
  BOOST_TEST(parse_error("---\na: 1\n...\n") == "no error");
  BOOST_TEST(parse_error("{a: 1}: 2\n").find("a key must be a plain name") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(deep_nesting_is_refused_and_not_a_crash) {
  BOOST_TEST(parse_error(std::string(100, '[') + std::string(100, ']')).find("levels deep") !=
             std::string::npos);
  BOOST_TEST(parse_error(std::string(100000, '[')) != "no error");
}

BOOST_AUTO_TEST_CASE(a_hostile_text_is_read_or_refused_within_moments) {
  constexpr std::size_t size = 900'000;
  const auto many = [](const std::string& part) {
    std::string text;
    while (text.size() < size) text += part;
    return text;
  };
  std::string keys;
  for (int i = 0; keys.size() < size; ++i) keys += fmt::format("k{}: 1\n", i);
  const std::vector<std::string> texts{keys,
                                       "{" + many("a,"),
                                       many("- "),
                                       many("? "),
                                       many("[{"),
                                       many("a: "),
                                       "a: &x b\n" + many("c: *x\n"),
                                       many("!t "),
                                       many("\"\\x"),
                                       many("'"),
                                       many("- a\n"),
                                       many("#"),
                                       many("%YAML 1.2\n"),
                                       many("|\n "),
                                       many("---\n"),
                                       many(" "),
                                       many("\t"),
                                       many(std::string("\0", 1)),
                                       many("\xff\xfe"),
                                       "[" + many("1, "),
                                       "a: " + many("9")};
  for (const std::string& text : texts) {
    const auto begun = std::chrono::steady_clock::now();
    try {
      (void)parse_yaml(text, "hostile").map().has("k1");
    } catch (const YamlError& error) {
      BOOST_TEST(std::string(error.what()).size() < 1000U);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    BOOST_TEST(took.count() < 10.0, text.substr(0, 20));  // 48 s where each key was compared with each
  }
}

BOOST_AUTO_TEST_CASE(texts_keys_names_and_words_have_a_limit) {
  const std::string name(200, 'n');
  BOOST_CHECK_THROW(parse_yaml(std::string(2 << 20, '#'), "t"), YamlError);
  BOOST_CHECK_THROW(parse_yaml(name + ": 1", "t"), YamlError);
  BOOST_CHECK_THROW(parse_yaml(name, "t").identifier(), YamlError);
  BOOST_TEST(parse_yaml(std::string(128, 'n'), "t").identifier().size() == 128U);
  BOOST_CHECK_THROW(parse_yaml(std::string(1001, 'w'), "t").prose(), YamlError);
  BOOST_TEST(parse_yaml(std::string(1000, 'w'), "t").prose().size() == 1000U);
}

BOOST_AUTO_TEST_CASE(lines_are_those_of_the_file_that_embeds_the_text) {
  BOOST_TEST(parse_error("a: 1\na: 2\n", 10) ==
             "f.yaml:11: the key 'a' is given twice, first on line 10 (remove one)");
  try {
    parse_yaml("a: 1\na: 2\n", "f.yaml", 10);
    BOOST_FAIL("no error");
  } catch (const YamlError& error) {
    BOOST_TEST(error.line() == 11);
    BOOST_TEST(error.origin() == "f.yaml");
    BOOST_TEST(error.message() == "the key 'a' is given twice, first on line 10 (remove one)");
  }
}

BOOST_AUTO_TEST_CASE(an_override_replaces_adds_and_says_where_it_came_from) {
  const YamlNode root = parse_yaml("a: {b: 1, c: 2}\nl: [1, 2]\n", "f.yaml");
  const YamlNode nine = parse_yaml("9", "--set");
  YamlNode set = root.with("a.b", nine).with("x.y", nine).with("l.1", nine);
  YamlMap map = set.map();
  YamlMap a = map.require("a").map();
  BOOST_TEST(a.require("b").integer() == 9);
  BOOST_TEST(a.require("c").integer() == 2);
  BOOST_TEST(a.require("b").origin() == "--set");
  BOOST_TEST(map.require("x").map().require("y").integer() == 9);
  BOOST_TEST(map.require("l").items().at(1).integer() == 9);
  BOOST_TEST(root.map().require("a").map().require("b").integer() == 1);
  BOOST_TEST(error_of([&] { root.with("l.7", nine); }) != "no error");
  BOOST_TEST(error_of([&] { root.with("a.b.c", nine); }) != "no error");
}

BOOST_AUTO_TEST_CASE(its_text_reads_back_the_same) {
  const std::string text = "a: 1\nb:\n  - x\n  - \"true\"\nc:\n  d: \"k: v\"\n";
  const std::string once = parse_yaml(text, "f").text();
  BOOST_TEST(once == parse_yaml(once, "f").text());
  YamlMap map = parse_yaml(once, "f").map();
  BOOST_TEST(map.require("c").map().require("d").string() == "k: v");
  BOOST_TEST(map.require("b").items().at(1).is_quoted());
}

BOOST_AUTO_TEST_CASE(a_missing_file_and_an_empty_one_are_errors) {
  BOOST_TEST(error_of([] { read_yaml("/nonexistent/f.yaml"); }) ==
             "/nonexistent/f.yaml: cannot be read (check that it exists and that you have read permission)");
  BOOST_TEST(error_of([] { read_yaml(std::filesystem::temp_directory_path()); }) != "no error");
  BOOST_TEST(error_of([] { parse_yaml("# nothing\n", "f.yaml").map(); }) ==
             "f.yaml:1: must be a map (key: value), not nothing");
}

BOOST_AUTO_TEST_CASE(the_nearest_name_counts_edits_swaps_and_case) {
  BOOST_TEST(nearest_name("block_m", {"BLOCK_N", "BLOCK_M"}) == "BLOCK_M");
  BOOST_TEST(nearest_name("gird", {"grid", "block"}) == "grid");
  BOOST_TEST(nearest_name("zzzzzz", {"grid", "block"}) == "");
  BOOST_TEST(nearest_name("qq", {"q", "k"}) == "q");
  BOOST_TEST(nearest_name("x", {}) == "");
  BOOST_TEST(nearest_name(std::string(1000000, 'x'), {"grid"}) == "");
}

BOOST_AUTO_TEST_SUITE_END()
