// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/binary_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path entry(const fs::path& folder, const std::string& key, const std::string& suffix) {
  return folder / key.substr(0, 2) / (key + suffix);
}

struct Entry {
  fs::file_time_type used;
  fs::path object;
  std::uintmax_t bytes = 0;  // with the description
};

std::uintmax_t size_of_file(const fs::path& file) {
  std::error_code missing;
  const auto bytes = fs::file_size(file, missing);
  return missing ? 0 : bytes;
}

}  // namespace

std::uintmax_t bytes_below(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code trouble;
  for (fs::recursive_directory_iterator at(folder, trouble), end; !trouble && at != end;
       at.increment(trouble))
    if (std::error_code gone; at->is_regular_file(gone)) bytes += size_of_file(at->path());
  return bytes;
}

void BinaryCache::mark_used(const fs::path& object) {
  ::utimensat(AT_FDCWD, object.c_str(), nullptr, 0);  // a cache of another user's is trimmed by that user
}

// Goes down to 3/4 of the limit, so that the next stores need not do it again. Another process may do the
// same: what it has removed is just not there any more.
void BinaryCache::trim(const fs::path& newest) const {
  std::vector<Entry> entries;
  std::uintmax_t total = 0;
  std::error_code trouble;
  for (fs::recursive_directory_iterator at(folder_, trouble), end; !trouble && at != end;
       at.increment(trouble)) {
    if (at->path().extension() != suffix_) continue;
    std::error_code gone;
    Entry found{at->last_write_time(gone), at->path(), size_of_file(at->path())};
    found.bytes += size_of_file(fs::path(at->path()).replace_extension(".json"));
    if (gone) continue;
    total += found.bytes;
    if (found.object != newest) entries.push_back(std::move(found));
  }
  if (total <= limit_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& oldest : entries) {
    if (total <= limit_ - limit_ / 4) return;
    std::error_code gone;
    fs::remove(fs::path(oldest.object).replace_extension(".json"), gone);  // first: see store
    fs::remove(oldest.object, gone);
    total -= oldest.bytes;
  }
}

std::optional<Binary> BinaryCache::find(const std::string& key) const {
  const auto description = read_file(entry(folder_, key, ".json"));
  if (!description) return std::nullopt;
  const json facts = json::parse(*description, nullptr, false);
  if (facts.is_discarded()) return std::nullopt;
  Binary binary;
  binary.path = entry(folder_, key, suffix_);
  const auto object = read_file(binary.path);
  try {
    if (!object || facts.at("sha256") != sha256_hex(*object)) return std::nullopt;
    binary.machine_code = facts.at("machine_code");
    binary.macros = facts.at("macros").get<std::vector<std::string>>();
    facts.at("resources").get_to(binary.resources.values);
    binary.resources.shares = facts.value("instruction_shares", binary.resources.shares);
    binary.log = facts.at("log");
    binary.chosen = facts.value("chosen", binary.chosen);
    binary.blocks = facts.value("blocks", binary.blocks);
    binary.counters = facts.value("counters", binary.counters);
  } catch (const json::exception&) {
    return std::nullopt;
  }
  mark_used(binary.path);
  return binary;
}

Expected<Binary> BinaryCache::store(const std::string& key, const fs::path& object, Binary binary) const {
  const auto bytes = read_file(object);
  if (!bytes) return tl::make_unexpected(bytes.error());
  binary.path = entry(folder_, key, suffix_);
  json facts = {{"sha256", sha256_hex(*bytes)},
                {"machine_code", binary.machine_code},
                {"macros", binary.macros},
                {"resources", binary.resources.values},
                {"instruction_shares", binary.resources.shares},
                {"log", binary.log}};
  if (!binary.chosen.empty()) facts["chosen"] = binary.chosen;
  if (!binary.blocks.empty()) facts.update({{"blocks", binary.blocks}, {"counters", binary.counters}});
  // Write the description last: an entry exists only once its description does.
  // A complete entry and an equal object stay, also those that another process stores at this moment: it may
  // have opened a sandbox for this very file, in which no later one can be read.
  const auto placed = write_if_missing(binary.path, *bytes);
  if (!placed) return tl::make_unexpected(placed.error());
  if (!*placed) {
    if (auto complete = find(key)) return *std::move(complete);
    const auto stored = read_file(binary.path);
    if (stored && *stored == *bytes)
      mark_used(binary.path);
    else if (auto done = write_atomically(binary.path, *bytes); !done)
      return tl::make_unexpected(done.error());
  }
  const auto text = json_text(facts, 1);
  if (auto done = write_atomically(entry(folder_, key, ".json"), text); !done)
    return tl::make_unexpected(done.error());
  // Looking through thousands of files takes long for a compile, so only one store in 16 does it, and each
  // large one.
  if (key.front() == '0' || bytes->size() > limit_ / 1024) trim(binary.path);
  return binary;
}

}  // namespace cultivar
