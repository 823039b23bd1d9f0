// SPDX-License-Identifier: Apache-2.0
// Completion offers what the commands take, in the shells themselves.
#include "engine/cli/completion.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "engine/cli/commands.hpp"
#include "evaluators/target/traits.hpp"
#include "support/command.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

namespace fs = std::filesystem;

struct Place {
  TemporaryFolder folder;
  fs::path before = fs::current_path();
  Place() {
    write_text(folder / "runs" / "first" / "run.db", "");
    write_text(folder / "runs" / "second" / "run.db", "");
    write_text(folder / "mine.yaml", "");
    write_text(folder / "mine.txt", "");
    write_text(folder / "scripts" / "of_bash", bash_completion());
    write_text(folder / "scripts" / "_cultivar", zsh_completion());
    write_text(folder / "scripts" / "of_fish", fish_completion());
    fs::current_path(folder.path());
  }
  ~Place() { fs::current_path(before); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  // What a shell answers, sorted, with spaces between.
  std::string answer(const std::vector<std::string>& shell) const {
    CommandOptions options;
    options.folder = folder.path();
    options.environment = {{"PATH", std::string(CULTIVAR_BIN_DIR) + ":/usr/bin:/bin"},
                           {"HOME", folder.path().string()}};
    const auto result = cultivar::testing::run_command(shell, options);
    BOOST_TEST(result.err == "");
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < result.out.size();) {
      const std::size_t end = std::min(result.out.find('\n', at), result.out.size());
      lines.push_back(
          result.out.substr(at, result.out.find('\t', at) < end ? result.out.find('\t', at) - at : end - at));
      at = end + 1;
    }
    std::ranges::sort(lines);
    std::string all;
    for (const std::string& line : lines) all += (all.empty() ? "" : " ") + line;
    return all;
  }
  std::string bash(const std::string& line) const {
    return answer({"bash", "-c",
                   "source scripts/of_bash; COMP_LINE=\"$1\"; COMP_POINT=${#1}; _cultivar; "
                   "((${#COMPREPLY[@]})) && printf "
                   "'%s\\n' \"${COMPREPLY[@]}\"; true",
                   "bash", line});
  }
  std::string fish(const std::string& line) const {
    return answer({"fish", "-N", "-c", "source scripts/of_fish; complete -C $argv[1]", "--", line});
  }
};

std::string offered(const std::vector<std::string>& words) {
  std::string all;
  for (const Candidate& each : candidates_for(words).words) all += (all.empty() ? "" : " ") + each.word;
  return all;
}

bool installed(const std::string& program) {
  return cultivar::testing::run_command({"sh", "-c", "command -v " + program}).exit == 0;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(completion, Place)

BOOST_AUTO_TEST_CASE(every_command_gives_its_definition) {
  const auto all = defined_commands();
  BOOST_TEST(all.size() == commands().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    BOOST_TEST(all[i].definition.name == commands()[i].name);
    BOOST_TEST(!all[i].definition.about.empty());
    BOOST_TEST(all[i].definition.example.find("cultivar " + all[i].definition.name) == 0U);
  }
}

BOOST_AUTO_TEST_CASE(values_follow_from_what_stands_before) {
  BOOST_TEST(offered({"das"}) == "dashboard");
  BOOST_TEST(offered({"status", "--wa"}) == "--watch");
  BOOST_TEST(offered({"status", ""}).starts_with("first second"));
  BOOST_TEST(offered({"evaluate", "softmax", "naive", "--workloads", "cpu_"}) == "cpu_quick cpu_holdout");
  BOOST_TEST(offered({"evaluate", "--workloads=cpu_q", "softmax", "na"}) == "naive");
  BOOST_TEST(offered({"evaluate", "softmax", "--target=c"}) == "--target=cpu --target=cuda");
  SyntheticRun run;
  run.individuals = 10;
  write_synthetic_run(folder / "runs" / "third", run);  // of attention_forward; the others cannot be read
  BOOST_TEST(offered({"compare", "attention_forward", "tiled", "th"}) == "third:best");
  BOOST_TEST(offered({"compare", "softmax", "naive", "th"}).empty());
  BOOST_TEST(offered({"compare", "softmax", "naive", "fi"}).empty());
  BOOST_TEST(offered({"profile", "f"}) == "first:best");
  BOOST_TEST(offered({"show", "first:"}) == "first:best first:seed");
  BOOST_TEST(offered({"show", "third:"}).starts_with("third:best third:seed third:"));
  BOOST_TEST(offered({"profile", "third:s"}) == "third:seed");
  BOOST_TEST(offered({"show", ":"}).empty());
  BOOST_TEST(offered({"import", "--device", ""}) == "cpu cuda");  // PyTorch has no tensors of OpenCL
  BOOST_TEST(offered({"evaluate", "softmax", "--stop-after", "s"}) == "screen smoke sweep stress");
  BOOST_TEST(offered({"show", "first", ""}) == "best seed");  // the record cannot be read
  BOOST_TEST(offered({"new", "task", "x", ""}).empty());
  BOOST_TEST(offered({"evaluate", "no_such_task", "--workloads", ""}).empty());
  BOOST_TEST(offered({"nothing", ""}).empty());
  BOOST_TEST((candidates_for({"run", ""}).files == Candidates::Files::yaml));
  BOOST_TEST((candidates_for({"export", "first", "--out", ""}).files == Candidates::Files::folders));
  BOOST_TEST(text_of(candidates_for({"tasks", "softm"})) == ":folders\nsoftmax\ttask\n");
}

BOOST_AUTO_TEST_CASE(bash_offers_commands_options_values_and_files) {
  BOOST_TEST(bash("cultivar das") == "dashboard");
  BOOST_TEST(bash("cultivar show f") == "first");
  BOOST_TEST(bash("cultivar evaluate softmax --target o") == "opencl");
  BOOST_TEST(bash("cultivar evaluate softmax --target=o") == "opencl");  // bash keeps what is before =
  BOOST_TEST(bash("cultivar profile first:b") == "best");
  BOOST_TEST(bash("cultivar run mi") == "mine.yaml");
  BOOST_TEST(bash("cultivar submit first mi") == "mine.txt mine.yaml");
}

BOOST_AUTO_TEST_CASE(fish_offers_the_same, *boost::unit_test::precondition([](auto) {
                       boost::test_tools::assertion_result found(installed("fish"));
                       found.message() << "fish is not installed";
                       return found;
                     })) {
  BOOST_TEST(fish("cultivar das") == "dashboard");
  BOOST_TEST(fish("cultivar show f") == "first");
  BOOST_TEST(fish("cultivar evaluate softmax --target o") == "opencl");
  BOOST_TEST(fish("cultivar run mi").find("mine.yaml") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(zsh_offers_the_same, *boost::unit_test::precondition([](auto) {
                       boost::test_tools::assertion_result found(installed("zsh"));
                       found.message() << "zsh is not installed";
                       return found;
                     })) {
  // In a terminal of its own, in which the tab key is pressed; its output is read so that it never blocks.
  const std::string program =
      "zmodload zsh/zpty; zpty -b z zsh -f -i\n"
      "drain() { local out; while zpty -rt z out; do :; done }\n"
      "zpty -w z 'fpath=(scripts $fpath); autoload -Uz compinit; compinit -u'\n"
      "zpty -w z 'echo() { print -r -- \"<$*>\" >>answers; }; alias cultivar=echo; setopt complete_aliases; "
      "compdef _cultivar cultivar'\n"
      "for line in 'cultivar das' 'cultivar show f' 'cultivar evaluate softmax --target o'; do\n"
      "  zpty -w -n z \"$line\"$'\\t\\n'\ndone\n"
      "for ((i = 0; i < 1000; ++i)); do drain; [[ -f answers && $(wc -l <answers) -ge 3 ]] && break; sleep "
      "0.05; "
      "done; zpty -d z; cat answers";
  BOOST_TEST(answer({"zsh", "-f", "-c", program}) ==
             "<dashboard> <evaluate softmax --target opencl> <show first>");
}

BOOST_AUTO_TEST_SUITE_END()
