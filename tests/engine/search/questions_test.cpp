// SPDX-License-Identifier: Apache-2.0
// Questions on their own: what is asked, what comes of it, and whom nobody asks any more.
#include "engine/search/questions.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <thread>

#include "engine/config/asking_settings.hpp"
#include "engine/search/evaluations.hpp"
#include "engine/store/askings.hpp"
#include "engine/store/record_view.hpp"
#include "evaluators/system/files.hpp"
#include "support/contains.hpp"
#include "support/scripted_run.hpp"
#include "support/search_parts.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Parts : SearchParts {
  explicit Parts(const std::string& url, const std::string& operators = "{mutate: 1}",
                 const std::string& model = "", const std::string& grace = "0s")
      : SearchParts({}, model.empty()
                            ? with_model(url, operators)
                            : std::vector<std::string>{"models.m=" + model, "operators=" + operators,
                                                       "asking.grace=" + grace}),
        prompts(prompt_kit(config.asking)),
        questions(config, folder, prompts, dialogues.get(), recorder, breeding, sources, pipeline) {
    Evaluations evaluations(config, recorder, breeding, sources, pipeline, second_tries, faults);
    for (const IndividualId id : proposals.seeds({})) evaluations.enqueue(id);
    evaluations.start_pending();
    drain([&](const JobPtr& job) { evaluations.returned(job, std::get<Evaluate>(job->work), {}); });
  }

  void ask() {
    const AskingLimits room = questions.room().value();
    const auto offspring = breeding.breed(room);
    BOOST_REQUIRE(offspring);
    questions.ask(std::get<Asking>(*offspring), room);
  }
  Questions::Outcome work() {
    Questions::Outcome last;
    drain([&](const JobPtr& job) { last = questions.answered(std::get<Ask>(job->work)); });
    return last;
  }

  PromptKit prompts;
  Questions questions;
};

ChatServer::Script renamer() {
  return [](const SeenRequest& seen) {
    return say(renaming(kernel_named_in(first_said(seen)), "softmax_renamed"));
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(questions)

BOOST_AUTO_TEST_CASE(an_answer_becomes_an_individual_that_is_owed_an_evaluation) {
  ChatServer server(renamer());
  Parts parts(server.url());
  parts.ask();
  BOOST_TEST(parts.breeding.open_askings().size() == 1U);
  const Questions::Outcome outcome = parts.work();
  BOOST_TEST(outcome.proposed == 3);
  BOOST_TEST(!outcome.fatal);
  BOOST_TEST(parts.questions.results_received() == 1);
  BOOST_TEST(parts.breeding.open_askings().empty());
  const auto row = parts.writer.record().individual(3);
  BOOST_TEST(row->individual.descent.op == "mutate");
  BOOST_TEST(row->individual.descent.model == "m");
}

BOOST_AUTO_TEST_CASE(no_more_questions_are_out_than_there_is_room_for) {
  ChatServer server(renamer());
  Parts parts(server.url());
  parts.config.asking.in_flight = 2;
  parts.ask();
  BOOST_TEST(parts.questions.room()->questions);
  parts.ask();
  BOOST_TEST(!parts.questions.room()->questions);
  parts.work();
  BOOST_TEST(parts.questions.room()->questions);
}

BOOST_AUTO_TEST_CASE(what_is_cancelled_stays_open_and_is_no_news) {
  ChatServer server([](const SeenRequest&) { return Reply{}.stall(); });
  Parts parts(server.url());
  parts.ask();
  parts.questions.cancel();
  const Questions::Outcome outcome = parts.work();
  BOOST_TEST(outcome.proposed == 0);
  BOOST_TEST(parts.questions.results_received() == 0);
  BOOST_TEST(parts.breeding.open_askings().size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_open_question_of_an_earlier_session_is_asked_again_to_the_letter) {
  ChatServer server(renamer());
  Parts parts(server.url());
  parts.ask();
  parts.questions.cancel();
  parts.work();
  const auto dialogues = ModelDialogues::open(parts.config, *make_models(parts.config, parts.folder),
                                              parts.folder, parts.writer, {})
                             .value();
  Pipeline pipeline(parts.evaluator, dialogues.get(), 0);
  Questions resumed(parts.config, parts.folder, parts.prompts, dialogues.get(), parts.recorder,
                    parts.breeding, parts.sources, pipeline);
  resumed.reopen();
  resumed.reopen();  // once is enough
  BOOST_TEST(pipeline.in_flight() == 1);
  const JobPtr job = pipeline.next(Clock::now() + std::chrono::seconds(60));
  BOOST_REQUIRE(job);
  BOOST_TEST(resumed.answered(std::get<Ask>(job->work)).proposed == 3);
}

BOOST_AUTO_TEST_CASE(a_question_that_is_declined_is_recorded_as_such) {
  ChatServer server([](const SeenRequest&) { return say("DECLINE: it is fast enough"); });
  Parts parts(server.url());
  parts.ask();
  BOOST_TEST(parts.work().proposed == 0);
  BOOST_TEST(parts.breeding.open_askings().empty());
  int found = 0;
  parts.writer.record().each_decision([&](const DecisionRow& row) {
    if (row.kind != DecisionKind::give_up) return;
    const auto body = nlohmann::json::parse(row.body);
    found += body.at("why") == "declined" && body.at("reason") == "it is fast enough";
  });
  BOOST_TEST(found == 1);
  BOOST_TEST(parts.events("unanswered").size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_letter_that_somebody_may_be_answering_is_not_withdrawn) {
  Parts parts("", "{mutate: 1}", "{provider: mailbox, folder: \"{run}/box\"}", "5m");
  parts.ask();
  Individual child;
  child.id = parts.breeding.next_id();
  child.source_id = "another";
  child.variant_id = "another";
  child.descent.op = "mutate";
  child.descent.parents = {parts.breeding.open_askings().at(1).parents.front()};
  parts.breeding.admit(child);
  parts.breeding.judge(child.id, {.measured = true, .fitness = 100.0});
  parts.breeding.promote(child.id);
  parts.questions.withdraw_superseded();
  BOOST_TEST(parts.breeding.open_askings().size() == 1U);
  parts.questions.cancel();
  parts.work();
}

BOOST_DATA_TEST_CASE(a_letter_about_a_kernel_that_was_left_behind_is_withdrawn,
                     boost::unit_test::data::make({true, false}), promoted) {
  const ScratchFolder mail;
  Parts parts("", "{mutate: 1}",
              promoted ? "{provider: mailbox, folder: \"" + (mail.path() / "box").string() + "\"}"
                       : std::string("{provider: mailbox, folder: \"{run}/box\"}"));
  parts.ask();
  const std::filesystem::path box = promoted ? mail.path() / "box" : parts.folder.path() / "box";
  const auto letters = [&](const char* folder) {
    int count = 0;
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(box / folder, none))
      count += file.path().extension() == ".md" && !file.path().filename().string().starts_with(".");
    return count;
  };
  for (int i = 0; i < 500 && letters("requests") == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  BOOST_TEST_REQUIRE(letters("requests") == 1);
  const IndividualId subject = parts.breeding.open_askings().at(1).parents.front();
  parts.questions.withdraw_superseded();  // nothing has changed
  BOOST_TEST(parts.breeding.open_askings().size() == 1U);
  // A child of its subject with another source is much faster, or becomes the best.
  Individual child;
  child.id = parts.breeding.next_id();
  child.source_id = "another";
  child.variant_id = "another";
  child.descent.op = "mutate";
  child.descent.parents = {subject};
  parts.breeding.admit(child);
  parts.breeding.judge(child.id, {.measured = true, .fitness = 100.0});
  if (promoted) parts.breeding.promote(child.id);
  parts.questions.withdraw_superseded();
  BOOST_TEST(parts.work().proposed == 0);
  BOOST_TEST(parts.breeding.open_askings().empty());
  BOOST_TEST(letters("requests") == 0);
  BOOST_TEST_REQUIRE(letters("requests/closed") == 1);
  for (const auto& file : std::filesystem::directory_iterator(box / "requests/closed"))
    if (file.path().extension() == ".md")
      BOOST_TEST(read_file(file.path()).value_or("").starts_with("<!-- Withdrawn"));
  const auto told = parts.events("unanswered");
  BOOST_TEST_REQUIRE(told.size() == 1U);
  BOOST_TEST(told[0].text.find("is withdrawn: #3") != std::string::npos, told[0].text);
  // Nobody answered it, so letters do not count its direction among what was tried.
  BOOST_TEST(newest_given_up(parts.writer.record(), 1).at(0).withdrawn);
  for (const Idea& idea : StoredRecordView(parts.writer.record(), parts.breeding).ideas())
    BOOST_TEST((idea.end != Idea::End::nothing));
  BOOST_TEST((told[0].text.find("is the best now") != std::string::npos) == promoted, told[0].text);
}

BOOST_AUTO_TEST_CASE(a_key_that_is_refused_closes_its_model) {
  ChatServer server([](const SeenRequest&) { return status_reply(401, R"({"error": {"message": "no"}})"); });
  Parts parts(server.url());
  BOOST_TEST(parts.questions.availability().why_no_model_left().empty());
  parts.ask();
  BOOST_TEST(parts.work().proposed == 0);
  BOOST_TEST(parts.questions.room()->closed.contains("m"));
  BOOST_TEST(!parts.questions.availability().why_no_model_left().empty());
  BOOST_TEST(parts.events("unanswered").size() == 1U);
  BOOST_TEST(parts.events("trouble").size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_model_of_which_nothing_can_be_used_is_closed_after_thirty_questions) {
  ChatServer server(renamer());
  Parts parts(server.url());
  Availability availability(parts.recorder, parts.breeding);
  AskingLimits room;
  for (int i = 0; i < 29; ++i) availability.question_given_up("m", {"no kernel"});
  availability.restrict(room);
  BOOST_TEST(room.closed.empty());
  availability.question_succeeded("m");
  for (int i = 0; i < 30; ++i) availability.question_given_up("m", {"no kernel"});
  availability.restrict(room);
  BOOST_TEST(room.closed.contains("m"));
}

BOOST_AUTO_TEST_CASE(a_model_whose_answers_have_no_text_is_closed_after_three_questions) {
  ChatServer server(renamer());
  Parts parts(server.url());
  Availability availability(parts.recorder, parts.breeding);
  AskingLimits room;
  const GivenUp nothing{"no text", NoResult::fruitless, true};
  for (const GivenUp& end : {nothing, nothing, GivenUp{"no kernel"}, nothing, nothing})
    availability.question_given_up("m", end);
  availability.restrict(room);
  BOOST_TEST(room.closed.empty());
  availability.question_given_up("m", nothing);
  availability.restrict(room);
  BOOST_TEST(room.closed.contains("m"));
}

BOOST_AUTO_TEST_CASE(a_model_that_sends_blank_answers_to_eight_questions_at_once_is_paid_for_ten) {
  ChatServer server([](const SeenRequest&) { return say("\n\n"); });
  Parts parts(server.url());
  for (int i = 0; i < 8; ++i) parts.ask();
  parts.work();
  // The first two are asked again before the third answer shows that it is not by chance.
  BOOST_TEST(parts.questions.results_received() == 10);
  BOOST_TEST(parts.events("unanswered").size() == 8U);
  BOOST_TEST(parts.questions.room()->closed.contains("m"));
  for (const GivenUpQuestion& end : newest_given_up(parts.writer.record(), 8))
    BOOST_TEST(contains(end.reason, "nothing but white space as text; raise asking.output_tokens"),
               end.reason);
}

BOOST_AUTO_TEST_CASE(a_model_whose_questions_lead_to_known_kernels_is_closed_after_twenty_in_a_row) {
  ChatServer server(renamer());
  Parts parts(server.url());
  Availability availability(parts.recorder, parts.breeding);
  for (int i = 0; i < 19; ++i) availability.question_repeated("m", 1);
  BOOST_TEST(availability.why_no_model_left() == "");
  availability.question_succeeded("m");  // a new kernel: the count begins anew
  for (int i = 0; i < 19; ++i) availability.question_repeated("m", 1);
  BOOST_TEST(availability.why_no_model_left() == "");
  availability.question_repeated("m", 1);
  const std::string why = availability.why_no_model_left();
  BOOST_TEST(contains(why, "20 questions in a row led to kernels that were there before; the last one to #1"),
             why);
}

BOOST_AUTO_TEST_CASE(without_a_correspondence_nobody_is_asked) {
  SearchParts parts;
  const PromptKit prompts = prompt_kit(parts.config.asking);
  Questions questions(parts.config, parts.folder, prompts, nullptr, parts.recorder, parts.breeding,
                      parts.sources, parts.pipeline);
  BOOST_TEST(!questions.room());
  questions.reopen();
  questions.tell_news();
  questions.cancel();
  BOOST_TEST(parts.pipeline.in_flight() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
