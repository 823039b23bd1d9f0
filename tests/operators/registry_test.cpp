// SPDX-License-Identifier: Apache-2.0
#include "operators/registry.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "operators/asking_operator.hpp"
#include "population/individual.hpp"

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(registry)

BOOST_AUTO_TEST_CASE(every_row_agrees_with_the_operator_that_it_makes) {
  const PromptKit kit;
  std::set<std::string_view> names, colours;
  for (const OperatorRow& row : operator_rows()) {
    const std::string name(row.name);
    const auto made = make_operator(name, {});
    BOOST_TEST(made->name() == name);
    BOOST_TEST((made->asking() != nullptr) == row.asks(), name);
    if (row.asks()) BOOST_CHECK_NO_THROW(kit.named(std::string(row.prompt)));
    if (made->asking()) {
      made->asking()->directed(1, {{"fuse the passes"}});
      BOOST_TEST(made->asking()->drop_directions("fuse the passes") == row.follows, name);
    }
    if (row.uses_tools()) BOOST_TEST(!row.tools(target_named("cuda")).empty(), name);
    BOOST_TEST(names.insert(row.name).second, name);
    BOOST_TEST(colours.insert(row.colour).second, name);
    Descent descent;  // it can be told from seeds and submissions in a record
    set_origin(descent, name);
    BOOST_TEST((descent.origin == Origin::operator_), name);
  }
}

BOOST_AUTO_TEST_CASE(a_name_that_nobody_has_is_no_operator) {
  BOOST_TEST((find_operator("seed") == nullptr));
  BOOST_TEST((find_operator("submit") == nullptr));
  BOOST_CHECK_THROW(operator_named("tone"), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
