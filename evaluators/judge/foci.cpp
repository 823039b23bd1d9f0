// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/foci.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/extents.hpp"
#include "evaluators/judge/source_numbers.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

constexpr std::int64_t kGreatestProduct = 1 << 23;  // of two numbers of a source

// An odd value, and a multiple that tiles may require.
void add_rounded(const Focus& like, std::vector<Focus>& to) {
  constexpr double kTile = 64.0;
  to.push_back(like);
  to.back().value = 2.0 * std::floor(like.value / 2.0) + 1.0;
  to.push_back(like);
  to.back().value = kTile * std::max(1.0, 2.0 * std::floor(like.value / kTile / 2.0) - 1.0);
}

}  // namespace

std::vector<Focus> foci_of(const Task& task, const Variant& variant, std::uint64_t seed) {
  RandomStream stream = stream_of(seed, "foci", 0);
  const SourceNumbers numbers = source_numbers(variant);
  std::vector<Focus> joined, exactly, together, first, then;
  std::vector<std::string> names;
  for (const Dimension& d : task.dimensions) names.push_back(d.name);
  const std::vector<std::string> dimensions = names;
  for (const Parameter& p : task.parameters)
    if (p.optional && !is_floating(p.type)) names.push_back(p.name);
  const auto around = [&](std::vector<Focus>& to, const std::string& name, double value) {
    for (const double offset : {-1.0, 0.0, 1.0})
      if (value + offset >= 1) to.push_back({name, value + offset});
  };
  for (const std::string& name : names) {
    for (const std::int64_t number : numbers.compared) {
      const auto value = static_cast<double>(number);
      for (const double offset : {-1.0, 1.0})
        if (value + offset >= 1) first.push_back({name, value + offset});
      for (const auto others : {Focus::Others::least, Focus::Others::small, Focus::Others::listed}) {
        exactly.push_back({name, value, Focus::Relation::none, {}, true, others});
        if (below(stream, 3) != 0)
          exactly.push_back({name, value + 1.0, Focus::Relation::none, {}, true, others});
      }
      // Beyond it, with a remainder by another number that the source may compare as well.
      for (const std::int64_t other : numbers.compared) {
        if (other < 3 || other > number) continue;
        std::vector<std::int64_t> remainders{0, other - 1};
        for (const std::int64_t each : numbers.compared)
          if (each < other && remainders.size() < 6) remainders.push_back(each);
        for (const std::int64_t remainder : remainders) {
          const std::int64_t least = number + 1, off = ((remainder - least) % other + other) % other;
          together.push_back({name,
                              static_cast<double>(least + off) +
                                  static_cast<double>(other) * static_cast<double>(below(stream, 3)),
                              Focus::Relation::none,
                              {},
                              true});
        }
      }
      // And each of two in a dimension of its own.
      for (const std::string& of : dimensions)
        for (const std::int64_t other : numbers.compared)
          if (of != name && number >= 8 && other >= 8)
            together.push_back({name,
                                value + static_cast<double>(below(stream, 2)),
                                Focus::Relation::none,
                                {},
                                true,
                                Focus::Others::small,
                                of,
                                static_cast<double>(other) + static_cast<double>(below(stream, 2))});
      // A remainder after a few whole tiles, and far beyond.
      first.push_back({name, value * static_cast<double>(1 + below(stream, 4)) +
                                 static_cast<double>(below(stream, static_cast<std::size_t>(number)))});
      then.push_back({name, std::round(value * std::exp2(3.0 * uniform(stream)))});
    }
    // So many tiles of so many elements: an array that has room for no more.
    for (const std::int64_t number : numbers.compared)
      for (const std::int64_t other : numbers.compared)
        if (other <= number && number * other > numbers.compared.back() && number * other <= kGreatestProduct)
          then.push_back({name, static_cast<double>(number * other) + 1.0});
    for (const std::int64_t number : numbers.others) around(then, name, static_cast<double>(number));
    for (int power = 0; power <= 17; ++power) around(then, name, std::exp2(power));
    for (int i = 0; i < 24; ++i) then.push_back({name, std::round(std::exp2(17.0 * uniform(stream)))});
  }
  for (const auto& [name, greatest] : far_dimensions(task))
    for (const double value : {0x1p16 + 1, 0x1p20 + 1, greatest + 1}) first.push_back({name, value});
  for (const std::string& name : dimensions)
    for (const std::string& of : dimensions) {
      if (name == of) continue;
      for (const double offset : {-65, -64, -63, -17, -8, -3, -2, -1, 0, 1, 2, 3, 8, 17, 63, 64, 65})
        then.push_back({name, offset, Focus::Relation::plus, of});
      for (const double factor : {2, 3, 4, 5, 6, 7, 8, 12, 16})
        then.push_back({name, factor, Focus::Relation::times, of});
      // What the source compares with a multiple of a dimension, of any size and beyond each number.
      for (const std::int64_t factor : numbers.factors) {
        const auto times = static_cast<double>(factor);
        exactly.push_back({name, times, Focus::Relation::times, of, true});
        for (const std::int64_t other : numbers.compared)
          if (other >= 8)
            exactly.push_back({name, times, Focus::Relation::times, of, true, Focus::Others::small, of,
                               static_cast<double>(other) + static_cast<double>(below(stream, 2))});
      }
      for (const std::int64_t number : numbers.compared)
        if (number <= 64) first.push_back({name, static_cast<double>(number), Focus::Relation::times, of});
    }
  // What a condition joins, in one dimension or in two.
  for (const SourceNumbers::Condition& condition : numbers.conditions)
    for (const std::string& name : names) {
      for (const auto& [divisor, remainder] : condition.remainders) {
        std::vector<std::int64_t> beyond = condition.numbers;
        if (beyond.empty()) beyond.push_back(1);
        for (const std::int64_t number : beyond) {
          const std::int64_t off = ((remainder - number - 1) % divisor + divisor) % divisor;
          joined.push_back(
              {name,
               static_cast<double>(number + 1 + off + divisor * static_cast<std::int64_t>(below(stream, 3))),
               Focus::Relation::none,
               {},
               true});
        }
      }
      for (const std::string& of : dimensions)
        for (std::size_t i = 0; i < condition.numbers.size() && of != name; ++i)
          for (std::size_t j = 0; j < condition.numbers.size(); ++j)
            for (const double more : {0.0, 1.0})
              for (const double also_more : {0.0, 1.0})
                if (i != j)
                  joined.push_back({name,
                                    static_cast<double>(condition.numbers[i]) + more,
                                    Focus::Relation::none,
                                    {},
                                    true,
                                    Focus::Others::small,
                                    of,
                                    static_cast<double>(condition.numbers[j]) + also_more});
    }
  const std::map<std::string, double> most = longest_sums(task);
  const auto too_long = [&](const Focus& focus) {
    const auto longest = [&](const std::string& name) {
      const auto found = most.find(name);
      return found == most.end() ? std::numeric_limits<double>::infinity() : found->second;
    };
    return (focus.relation == Focus::Relation::none && focus.value > longest(focus.name)) ||
           (!focus.also.empty() && focus.also_value > longest(focus.also));
  };
  for (auto* part : {&joined, &exactly, &together, &first, &then}) {
    std::erase_if(*part, too_long);
    shuffle(*part, stream);
  }
  // What a condition joins, a single number, the same again, and two numbers that no condition joins: where
  // some are many, the others must not wait for their end.
  std::vector<Focus> singles = std::exchange(exactly, {});
  for (std::size_t i = 0, j = 0, k = 0; i < singles.size() || j < together.size() || k < joined.size();) {
    for (int n = 0; n < 2; ++n) {
      if (k < joined.size()) exactly.push_back(std::move(joined[k++]));
      if (i < singles.size()) exactly.push_back(std::move(singles[i++]));
    }
    if (j < together.size()) exactly.push_back(std::move(together[j++]));
  }
  // In turn, so that neither waits for the end of the other.
  std::vector<Focus> all;
  for (std::size_t i = 0; i < std::max({exactly.size(), first.size(), then.size()}); ++i) {
    if (i < exactly.size()) all.push_back(std::move(exactly[i]));
    if (i < first.size()) all.push_back(std::move(first[i]));
    if (i < then.size()) all.push_back(std::move(then[i]));
  }
  return all;
}

std::vector<Focus> table_foci(const Task& task, const Variant& variant, std::uint64_t seed) {
  RandomStream stream = stream_of(seed, "tables", 0);
  std::vector<Focus> all;
  for (const std::vector<std::int64_t>& row : source_numbers(variant).rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto value = static_cast<double>(row[i]);
      for (const Dimension& d : task.dimensions) {
        if (i < 2) all.push_back({d.name, value, Focus::Relation::none, {}, true, Focus::Others::least});
        if (i > 1 || i + 1 == row.size()) continue;
        for (const Dimension& other : task.dimensions)
          if (other.name != d.name)
            all.push_back({d.name,
                           value,
                           Focus::Relation::none,
                           {},
                           true,
                           Focus::Others::least,
                           other.name,
                           static_cast<double>(row[i + 1])});
      }
    }
  shuffle(all, stream);
  return all;
}

std::vector<std::vector<Focus>> longest_foci(const Task& task, const Variant& variant, std::uint64_t seed) {
  constexpr std::size_t kMostBeside = 12;
  constexpr std::int64_t kLeastBeside = 8, kGreatestBeside = 4096;
  RandomStream stream = stream_of(seed, "longest", 0);
  const std::map<std::string, double> extents = longest_extents(task);
  const SourceNumbers numbers = source_numbers(variant);
  std::vector<std::vector<Focus>> all, named, beside;
  for (const Focus::Others others : {Focus::Others::least, Focus::Others::small, Focus::Others::listed})
    for (const Dimension& d :
         task.dimensions) {  // in turn: those that take long must not keep others from theirs
      double greatest = 1.0;
      for_each_listed(task, [&](const Workload& w) { greatest = std::max(greatest, w.values.at(d.name)); });
      const double longest = extents.at(d.name);
      const auto alternatives = [&](const Focus& like) {
        const double odd = 1.0 + 2.0 * static_cast<double>(below(stream, 32));
        std::vector<Focus> one;
        for (const double value : {longest - odd, longest, 0x1p18 - odd, 0x1p17 - odd, 0x1p16 + odd,
                                   1.5 * greatest - odd, greatest, greatest / 4.0})
          if (value >= 1.0 && value <= longest) {
            one.push_back(like);
            one.back().value = std::round(value);
          }
        return one;
      };
      Focus like{d.name, 0.0, Focus::Relation::none, {}, true, others};
      all.push_back(alternatives(like));
      // Beside another dimension that the source may compare with a number, or with its multiples.
      for (const Dimension& other : task.dimensions)
        for (const std::int64_t number : numbers.compared)
          if (others == Focus::Others::small && other.name != d.name && number >= kLeastBeside &&
              number <= kGreatestBeside) {
            like.also = other.name;
            like.also_value = static_cast<double>(number) * static_cast<double>(1 + below(stream, 2));
            const bool is_named = std::ranges::count(numbers.named, std::pair(other.name, number)) > 0;
            (is_named ? named : beside).push_back(alternatives(like));
          }
    }
  std::size_t left = kMostBeside;
  for (auto* from : {&named, &beside})
    for (; left > 0 && !from->empty(); --left) {
      std::swap((*from)[below(stream, from->size())], from->back());
      all.push_back(std::move(from->back()));
      from->pop_back();
    }
  return all;
}

std::vector<std::vector<Focus>> filled_foci(const Task& task, std::uint64_t seed) {
  constexpr std::size_t kMostPairs = 6;
  constexpr int kHalvings = 12;
  RandomStream stream = stream_of(seed, "filled", 0);
  const std::map<std::string, double> extents = longest_extents(task);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Dimension& d : task.dimensions)
    for (const Dimension& other : task.dimensions)
      if (other.name != d.name) pairs.emplace_back(d.name, other.name);
  shuffle(pairs, stream);
  const auto counts_rows = [&](const std::string& name) { return std::ranges::count(task.rows, name) > 0; };
  const auto others = std::stable_partition(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return counts_rows(pair.first) && counts_rows(pair.second);
  });
  // A few divisors are harmless, so where only two dimensions count rows each order of them comes twice.
  if (const std::vector of_rows(pairs.begin(), others); of_rows.size() == 2)
    pairs.insert(others, of_rows.begin(), of_rows.end());
  if (pairs.size() > kMostPairs) pairs.resize(kMostPairs);
  std::vector<std::vector<Focus>> all;
  for (const auto& [name, also] : pairs) {
    Focus focus{name,
                extents.at(name) * (0.75 + 0.25 * uniform(stream)),
                Focus::Relation::none,
                {},
                true,
                Focus::Others::two,
                also};
    focus.also_value = std::min(extents.at(also), 3.0 + 2.0 * static_cast<double>(below(stream, 2)));
    focus.value *= 3.0 / focus.also_value;
    std::vector<Focus>& alternatives = all.emplace_back();
    for (int i = 0; i < kHalvings; ++i, focus.value /= 2.0) add_rounded(focus, alternatives);
  }
  return all;
}

std::vector<Focus> divisor_foci(const Task& task, std::uint64_t seed) {
  constexpr std::size_t kOfEach = 24, kMost = 96;
  RandomStream stream = stream_of(seed, "divisors", 0);
  const std::map<std::string, double> extents = longest_extents(task);
  std::vector<Focus> all;
  for (std::size_t i = 0; i < std::min(kOfEach, kMost / std::max<std::size_t>(1, task.dimensions.size()));
       ++i)
    for (const Dimension& d : task.dimensions) {
      const double value = std::min(extents.at(d.name), std::exp2(10.0 + 7.0 * uniform(stream)));
      Focus focus{d.name, std::floor(value), Focus::Relation::none, {}, true, Focus::Others::two};
      const std::string& other = task.dimensions[below(stream, task.dimensions.size())].name;
      if (other != d.name) focus.also = other, focus.also_value = 3.0 + static_cast<double>(below(stream, 5));
      all.push_back(std::move(focus));
    }
  return all;
}

std::vector<Focus> table_length_foci(const Task& task, const Variant& variant, std::uint64_t seed) {
  constexpr std::size_t kMost = 8, kMostNamed = 5;
  constexpr std::int64_t kLeastBeside = 8, kGreatestBeside = 4096;
  RandomStream stream = stream_of(seed, "table lengths", 0);
  const std::map<std::string, double> extents = longest_extents(task);
  const SourceNumbers numbers = source_numbers(variant);
  std::vector<Focus> alone, named, beside;
  for (const Dimension& d : task.dimensions) {
    if (!is_indexed(task, d.name) || extents.at(d.name) < 0x1p17) continue;
    const auto focus = [&] {
      return Focus{d.name,
                   std::floor(0x1p16 * (1.75 + 0.25 * uniform(stream))),
                   Focus::Relation::none,
                   {},
                   true,
                   Focus::Others::two};
    };
    alone.push_back(focus());
    for (const Dimension& other : task.dimensions)
      for (const std::int64_t number : numbers.compared)
        if (other.name != d.name && number >= kLeastBeside && number <= kGreatestBeside) {
          const bool is_named = std::ranges::count(numbers.named, std::pair(other.name, number)) > 0;
          Focus& one = (is_named ? named : beside).emplace_back(focus());
          one.also = other.name;
          one.also_value = static_cast<double>(number);
        }
  }
  shuffle(named, stream);
  shuffle(beside, stream);
  named.resize(std::min(named.size(), kMostNamed));
  for (auto* part : {&alone, &beside}) std::ranges::move(*part, std::back_inserter(named));
  if (named.size() > kMost) named.resize(kMost);
  return named;
}

std::vector<std::vector<Focus>> wide_foci(const Task& task, std::uint64_t seed) {
  constexpr int kOfEach = 2, kHalvings = 4;
  RandomStream stream = stream_of(seed, "wide", 0);
  std::vector<std::vector<Focus>> all;
  for (const auto& [name, longest] : longest_extents(task)) {
    if (std::ranges::count(task.rows, name) > 0) continue;
    for (int i = 0; i < kOfEach; ++i) {
      Focus focus{name,
                  std::min(longest, std::exp2(16.0 + 3.0 * uniform(stream))),
                  Focus::Relation::none,
                  {},
                  true,
                  Focus::Others::least};
      std::vector<Focus>& alternatives = all.emplace_back();
      for (int halving = 0; halving < kHalvings; ++halving, focus.value /= 2.0)
        add_rounded(focus, alternatives);
    }
  }
  return all;
}

}  // namespace cultivar
