// SPDX-License-Identifier: Apache-2.0
// Answers with random faults, and cuts at every byte: `bench-answer-fuzz [CASES] [SEED]`. Prints what the
// readers lose; exit code 1 if they lose anything.
#include <fmt/format.h>
#include <cstdlib>

#include "support/answer_fuzzer.hpp"

using namespace cultivar::testing;

int main(int argc, char** argv) {
  const std::size_t cases = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  const std::vector<RecordedAnswer> answers = recorded_answers();
  std::size_t tried = 0, losses = 0;
  const auto check = [&](const std::string& provider, const std::string& bytes) {
    const std::string lost = lost_in(provider, bytes, random);
    ++tried;
    losses += !lost.empty();
    if (!lost.empty() && losses <= 20) fmt::print("{}: {} of\n{}\n---\n", provider, lost, bytes);
  };
  for (const RecordedAnswer& answer : answers) {
    const std::string whole = answer.whole();
    for (std::size_t at = 0; at <= whole.size(); ++at) check(answer.provider, whole.substr(0, at));
  }
  while (tried < cases) {
    const RecordedAnswer& answer = answers[tried % answers.size()];
    check(answer.provider, with_faults(answer, random));
  }
  fmt::print("{} answers, {} of them lost something\n", tried, losses);
  return losses == 0 ? 0 : 1;
}
