// SPDX-License-Identifier: Apache-2.0
// What a record names runs, is read or is sent away only with the user's word.
#include "engine/search/trust.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "support/contains.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Folders : ScratchFolder {
  std::filesystem::path run = path() / "run";
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(trust, Folders)

BOOST_AUTO_TEST_CASE(a_secret_goes_to_the_address_in_a_record_only_with_the_users_word) {
  Config config = softmax_config(path() / "config");
  ModelConfig model;
  model.name = "x";
  model.provider = "openai";
  model.base_url = "http://127.0.0.1:9/v1";
  model.api_key_env = "SECRET_OF_THE_USER";
  config.models = {model};
  const auto refused = [&] {
    try {
      require_trust(config, RunFolder(run), simulated_runtime({}));
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  BOOST_TEST(contains(refused(),
                      "model x sends the environment variable SECRET_OF_THE_USER to "
                      "http://127.0.0.1:9/v1"),
             refused());
  config.models[0].base_url.clear();
  BOOST_TEST(contains(refused(), "SECRET_OF_THE_USER to its provider's own address"), refused());
  config.models[0].api_key_env = "OPENAI_API_KEY";  // as anybody who uses this provider does
  BOOST_TEST(refused() == "");
  Runtime known = simulated_runtime({});
  known.cache = path() / "cache";
  config.models = {model};
  remember_programs(config, RunFolder(run), known);  // a search of this user had the same model
  BOOST_CHECK_NO_THROW(require_trust(config, RunFolder(run), known));
}

BOOST_AUTO_TEST_CASE(a_contender_library_in_a_record_is_loaded_where_it_was_known_before) {
  const auto library = path() / "contender.so";
  std::ofstream(library) << "";
  Config config = softmax_config(path() / "config", {"budget.evaluations=4"});
  config.libraries = {library.string()};
  Runtime here = simulated_runtime({}), elsewhere = here;
  here.cache = path() / "cache";
  elsewhere.cache = path() / "other-cache";
  const RunFolder folder(run);
  BOOST_CHECK_THROW(require_trust(config, folder, here), InputError);
  remember_programs(config, folder, here);
  BOOST_CHECK_NO_THROW(require_trust(config, folder, here));
  BOOST_CHECK_THROW(require_trust(config, folder, elsewhere), InputError);
  config.libraries = {"cudnn"};  // of the catalog
  BOOST_CHECK_NO_THROW(require_trust(config, folder, elsewhere));
  config.libraries = {"torch"};  // of the catalog, but it runs the pytorch.py of the record's task
  BOOST_CHECK_THROW(require_trust(config, folder, elsewhere), InputError);
}

BOOST_AUTO_TEST_CASE(an_interpreter_or_a_program_with_other_contents_in_a_record_is_asked_for) {
  const std::string contender = (path() / "fast.py").string(), python = (path() / "python").string();
  std::ofstream(contender) << "# one\n";
  std::ofstream(python) << "one";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  Config config = softmax_config(path() / "config");
  config.libraries = {contender};
  Runtime here = simulated_runtime({});
  here.cache = path() / "cache";
  const RunFolder folder(run);
  const auto refused = [&](const std::vector<std::string>& own_settings = {}) {
    try {
      require_trust(config, folder, here, own_settings);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  remember_programs(config, folder, here);
  BOOST_TEST(refused() == "");
  config.evaluation.python = python;
  BOOST_TEST(contains(refused(), "the interpreter " + python + " of Python contenders"), refused());
  BOOST_TEST(!contains(refused(), "the contender"), refused());
  BOOST_TEST(refused({"evaluation.python=" + python}) == "");
  BOOST_TEST(refused({"evaluation.depth=1"}) != "");
  remember_programs(config, folder, here);
  BOOST_TEST(refused() == "");
  std::ofstream(python) << "two";
  BOOST_TEST(contains(refused(), "the interpreter " + python), refused());
  remember_programs(config, folder, here);
  std::ofstream(contender) << "# two\n";
  BOOST_TEST(contains(refused(), "the contender " + contender), refused());
  BOOST_TEST(!contains(refused(), "the interpreter"), refused());
  config.libraries = {"cudnn"};  // nothing runs the interpreter
  config.evaluation.python = "other";
  BOOST_TEST(refused() == "");
}

BOOST_AUTO_TEST_CASE(a_model_of_a_record_sends_and_writes_elsewhere_only_with_the_users_word) {
  Config config = softmax_config(path() / "config");
  Runtime here = simulated_runtime({});
  here.cache = path() / "cache";
  const RunFolder folder(run);
  ModelConfig keyless;
  keyless.name = "k";
  keyless.provider = "openai";
  keyless.base_url = "https://elsewhere.example/v1";
  ModelConfig mail;
  mail.name = "m";
  mail.provider = "mailbox";
  for (const std::string& outside :
       std::vector<std::string>{path().string(), "{run}x", run.string() + "x", run.string() + "/.."}) {
    mail.folder = std::filesystem::path(outside).lexically_normal().string();
    config.models = {mail};
    BOOST_CHECK_EXCEPTION(require_trust(config, folder, here), InputError, [&](const InputError& e) {
      return contains(e.what(), "the mailbox of model m writes to " + mail.folder);
    });
  }
  config.models = {mail, keyless};
  BOOST_CHECK_EXCEPTION(require_trust(config, folder, here), InputError, [](const InputError& e) {
    return contains(e.what(), "model k sends its requests to https://elsewhere.example/v1");
  });
  remember_programs(config, folder, here);
  BOOST_CHECK_NO_THROW(require_trust(config, folder, here));
  here.cache = path() / "other-cache";
  keyless.base_url = "https://api.openai.com/v1";
  for (const std::string& inside : std::vector<std::string>{"{run}/mail", (run / "mail").string()}) {
    mail.folder = inside;
    config.models = {mail, keyless};
    BOOST_CHECK_NO_THROW(require_trust(config, folder, here));
  }
}

BOOST_AUTO_TEST_CASE(recorded_answers_outside_the_run_of_a_record_are_read_only_with_the_users_word) {
  Config config = softmax_config(path() / "config");
  Runtime here = simulated_runtime({});
  here.cache = path() / "cache";
  const RunFolder folder(run);
  ModelConfig model;
  model.name = "r";
  model.provider = "replay";
  const auto refused = [&](const std::filesystem::path& file) {
    model.file = file.string();
    config.models = {model};
    try {
      require_trust(config, folder, here);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  const auto outside = path() / "answers.jsonl", inside = run / "answers.jsonl", link = run / "link.jsonl";
  std::filesystem::create_directory(run);
  for (const auto& file : {outside, inside}) std::ofstream(file) << "{}\n";
  std::filesystem::create_symlink(outside, link);
  BOOST_TEST(refused(inside) == "");
  for (const auto& file : {outside, link})
    BOOST_TEST(contains(refused(file), "the answers of model r are read from " + file.string()),
               refused(file));
  BOOST_TEST(refused(outside) != "");
  remember_programs(config, folder, here);
  BOOST_TEST(refused(outside) == "");
  BOOST_TEST(refused(link) != "");
}

BOOST_AUTO_TEST_SUITE_END()
