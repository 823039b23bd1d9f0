// SPDX-License-Identifier: Apache-2.0
// Files of a run hold every individual, nothing that was not measured, and no formula.
#include "engine/views/kernel_table.hpp"

#include <SQLiteCpp/Database.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/command.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using nlohmann::json;

namespace {

Record open(const std::filesystem::path& run) {
  auto record = Record::open(run);
  BOOST_REQUIRE(record);
  return std::move(*record);
}

// Cells, and whether each was in quotes.
std::vector<std::vector<std::pair<std::string, bool>>> read_csv(const std::string& text) {
  std::vector<std::vector<std::pair<std::string, bool>>> rows;
  bool inside = false, begins = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (begins) rows.emplace_back().emplace_back();
    begins = false;
    auto& [cell, quoted] = rows.back().back();
    if (inside && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      cell += text[++i];
    else if (c == '"')
      inside = !inside, quoted = true;
    else if (!inside && c == ',')
      rows.back().emplace_back();
    else if (!inside && c == '\n')
      begins = true;
    else
      cell += c;
  }
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kernel_files)

BOOST_AUTO_TEST_CASE(files_hold_every_individual_and_no_formula) {
  TemporaryFolder folder;
  SyntheticRun run;
  run.individuals = 40;
  run.hostile = true;
  write_synthetic_run(folder / "run", run);
  const Record one = open(folder / "run");
  RunIndex index;
  index.update(one);
  std::string csv, lines;
  each_csv_line(one, index, [&](std::string_view line) { csv += line; });
  each_json_line(one, index, [&](std::string_view line) { lines += line; });
  BOOST_TEST(std::count(lines.begin(), lines.end(), '\n') == 40);
  BOOST_TEST(csv.find('\x1b') == std::string::npos);
  const auto rows = read_csv(csv);
  BOOST_REQUIRE(rows.size() == 41U);
  BOOST_REQUIRE(rows[0].size() == file_columns().size());
  std::istringstream in(lines);
  int unmeasured = 0, first = 0;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    BOOST_REQUIRE(rows[r].size() == file_columns().size());
    std::string text;
    std::getline(in, text);
    const json line = json::parse(text);
    if (r == 1) BOOST_TEST(line["configuration"]["STAGES"] == 3);
    const KernelFacts* const k = index.find(line["id"].get<IndividualId>());
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const std::string name = file_columns()[c].name;
      const auto& [cell, quoted] = rows[r][c];
      BOOST_TEST(rows[0][c].first == name);
      BOOST_TEST(line.contains(name), name);
      if (name == "configuration") {
        BOOST_TEST(quoted);
        BOOST_TEST(cell.find("STAGES=") != std::string::npos, cell);
      } else if (line[name].is_null()) {
        BOOST_TEST((cell.empty() && !quoted), name);
      } else if (line[name].is_string()) {
        BOOST_TEST(quoted, name);
        BOOST_TEST((cell.empty() || std::string_view("=+-@").find(cell.front()) == std::string_view::npos),
                   cell);
      } else {
        BOOST_TEST((!quoted && !cell.empty()), name);
      }
    }
    const bool measured = k->fitness > 0.0;
    unmeasured += !measured, first += k->parent == 0;
    BOOST_TEST(line["fitness"].is_null() == !measured);
    BOOST_TEST(line["measured"].is_null() == !measured);
    BOOST_TEST(line["parent"].is_null() == (k->parent == 0));
    BOOST_TEST(line["usd"].is_null() == (line["model"] == ""));
  }
  BOOST_TEST(unmeasured > 0);
  BOOST_TEST(first > 0);
}

BOOST_AUTO_TEST_CASE(a_text_that_begins_as_a_formula_is_marked_in_csv) {
  TemporaryFolder folder;
  write_synthetic_run(folder / "run", {});
  {
    SQLite::Database db((folder / "run" / "run.db").string(), SQLite::OPEN_READWRITE);
    db.exec(
        "UPDATE individuals SET note = '=cmd()' WHERE id = 1; UPDATE individuals SET note = ' -1' WHERE id = "
        "2;"
        "UPDATE individuals SET note = 'a \"b\", c' WHERE id = 3");
  }
  const Record one = open(folder / "run");
  RunIndex index;
  index.update(one);
  std::string csv;
  each_csv_line(one, index, [&](std::string_view line) { csv += line; });
  const auto rows = read_csv(csv);
  BOOST_TEST(rows.at(1).back().first == "'=cmd()");
  BOOST_TEST(rows.at(2).back().first == "' -1");
  BOOST_TEST(rows.at(3).back().first == "a \"b\", c");
}

BOOST_AUTO_TEST_SUITE_END()
