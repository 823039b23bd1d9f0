#include "evaluators/targets/binary_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace cultivar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path entry(const fs::path& folder, const std::string& key, const std::string& suffix) {
  return folder / key.substr(0, 2) / (key + suffix);
}

}  // namespace

Expected<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return failure("read file", path.string() + ": cannot be read");
  return std::move(text).str();
}

Expected<void> write_file_durably(const fs::path& path, std::string_view contents) {
  static std::atomic<unsigned> serial{0};
  const auto trouble = [&](const char* step) {
    return failure("write file", fmt::format("{}: {}: {}", path.string(), step, std::strerror(errno)));
  };
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path.string(), ::getpid(), serial++);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return trouble("open");
  bool good = true;
  for (std::size_t done = 0; good && done < contents.size();) {
    const ssize_t put = ::write(fd, contents.data() + done, contents.size() - done);
    if (put < 0 && errno == EINTR) continue;
    good = put > 0;
    if (good) done += static_cast<std::size_t>(put);
  }
  good = good && ::fsync(fd) == 0;
  good = ::close(fd) == 0 && good;
  if (!good || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const auto result = trouble(good ? "rename" : "write");
    ::unlink(temporary.c_str());
    return result;
  }
  return {};
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
    binary.resources.values = facts.at("resources").get<std::map<std::string, double>>();
    binary.log = facts.at("log");
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return binary;
}

Expected<Binary> BinaryCache::store(const std::string& key, const fs::path& object, Binary binary) const {
  const auto bytes = read_file(object);
  if (!bytes) return tl::make_unexpected(bytes.error());
  binary.path = entry(folder_, key, suffix_);
  const json facts = {{"sha256", sha256_hex(*bytes)},
                      {"machine_code", binary.machine_code},
                      {"macros", binary.macros},
                      {"resources", binary.resources.values},
                      {"log", binary.log}};
  // The description last: it is what makes the entry exist.
  if (auto done = write_file_durably(binary.path, *bytes); !done) return tl::make_unexpected(done.error());
  const auto text = facts.dump(1, ' ', false, json::error_handler_t::replace);
  if (auto done = write_file_durably(entry(folder_, key, ".json"), text); !done)
    return tl::make_unexpected(done.error());
  return binary;
}

}  // namespace cultivar
