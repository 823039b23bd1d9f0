// SPDX-License-Identifier: Apache-2.0
// Sources are parsed once, and the bound on how many are kept holds.
#include "engine/breeding/parsed_sources.hpp"

#include <boost/test/unit_test.hpp>

#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Shelf {
  ScratchFolder scratch;
  Config config = softmax_config(scratch.path());
  std::map<std::string, std::string> record;  // texts by source id
  int reads = 0;
  ParsedSources sources{*config.task,
                        [this](const std::string& id) {
                          ++reads;
                          return record.at(id);
                        },
                        2};

  VariantPtr add(const std::string& name, const Configuration& configuration = {}) {
    const VariantPtr variant = sources.variant(softmax_source(name), configuration).value();
    record[variant->source_id] = variant->source;
    return variant;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(parsed_sources, Shelf)

BOOST_AUTO_TEST_CASE(other_values_of_a_source_are_the_same_variant_as_parsed_anew) {
  add("softmax_a");
  const Configuration values{{"BLOCK", std::int64_t{64}}};
  const ParsedVariant known = sources.variant(softmax_source("softmax_a"), values);
  const auto anew = make_variant(softmax_source("softmax_a"), *config.task, values);
  BOOST_REQUIRE(known);
  BOOST_TEST((*known)->id == anew->id);
  BOOST_TEST((*known)->source_id == anew->source_id);
  BOOST_TEST(((*known)->configuration == anew->configuration));
}

BOOST_AUTO_TEST_CASE(a_value_that_is_not_allowed_is_refused_in_the_same_words) {
  add("softmax_a");
  const Configuration values{{"BLOCK", std::int64_t{7}}};
  const ParsedVariant known = sources.variant(softmax_source("softmax_a"), values);
  const auto anew = make_variant(softmax_source("softmax_a"), *config.task, values);
  BOOST_REQUIRE(!known);
  BOOST_TEST(known.error().text() == anew.error().text());
}

BOOST_AUTO_TEST_CASE(the_record_is_read_only_for_what_was_dropped) {
  const VariantPtr a = add("softmax_a"), b = add("softmax_b");
  BOOST_TEST(sources.recorded(a->source_id, {}).value()->id == a->id);
  BOOST_TEST(sources.text(b->source_id) == b->source);
  BOOST_TEST(reads == 0);
  add("softmax_c");  // there is room for two, and a was used before b
  BOOST_TEST(sources.recorded(b->source_id, {}).value()->id == b->id);
  BOOST_TEST(reads == 0);
  BOOST_TEST(sources.recorded(a->source_id, {}).value()->id == a->id);
  BOOST_TEST(reads == 1);
}

BOOST_AUTO_TEST_CASE(a_source_that_does_not_parse_is_no_variant_and_is_not_kept) {
  BOOST_TEST(!sources.variant("no manifest"));
  record["broken"] = "no manifest";
  BOOST_TEST(!sources.recorded("broken", {}));
  BOOST_TEST(!sources.recorded("broken", {}));
  BOOST_TEST(reads == 2);
}

BOOST_AUTO_TEST_SUITE_END()
