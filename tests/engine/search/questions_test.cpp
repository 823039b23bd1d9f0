// Questions on their own: what is asked, what comes of it, and whom nobody asks any more.
#include "engine/search/questions.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/config/asking_settings.hpp"
#include "engine/search/evaluations.hpp"
#include "support/scripted_run.hpp"
#include "support/search_parts.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Parts : SearchParts {
  explicit Parts(const std::string& url, const std::string& operators = "{mutate: 1}")
      : SearchParts({}, with_model(url, operators)),
        prompts(prompt_kit(config.asking)),
        questions(config, folder, prompts, dialogues.get(), recorder, breeding, sources, pipeline) {
    Evaluations evaluations(config, recorder, breeding, sources, pipeline, second_tries);
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
  const auto dialogues =
      ModelDialogues::open(parts.config, *make_models(parts.config), parts.folder, parts.writer, {}).value();
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
  for (int i = 0; i < 29; ++i) availability.question_given_up("m", "no kernel");
  availability.restrict(room);
  BOOST_TEST(room.closed.empty());
  availability.question_succeeded("m");
  for (int i = 0; i < 30; ++i) availability.question_given_up("m", "no kernel");
  availability.restrict(room);
  BOOST_TEST(room.closed.contains("m"));
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
