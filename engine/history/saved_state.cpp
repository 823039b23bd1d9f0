#include "engine/history/saved_state.hpp"

#include <SQLiteCpp/Database.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cereal/archives/binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/deque.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <fstream>
#include <istream>
#include <streambuf>

#include "engine/store/rows.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kDigest = 64;  // of everything before it, at the end of a file

// A file's bytes; empty if it is no regular file or cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& file) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts {};
    if (descriptor < 0) return;
    if (::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0) {
      const auto size = static_cast<std::size_t>(facts.st_size);
      void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor, 0);
      if (data != MAP_FAILED) bytes_ = {static_cast<const char*>(data), size};
    }
    ::close(descriptor);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

class TextBuffer : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* const begin = const_cast<char*>(text.data());  // never written to
    setg(begin, begin, begin + text.size());
  }
};

// Of the program and of the record up to this decision, which has a time to the nanosecond. Empty: the
// program cannot be read.
std::string identity(const Record& record, std::int64_t decision) {
  static const std::string program = [] {
    const MappedFile own("/proc/self/exe");
    return own.bytes().empty() ? std::string() : sha256_hex(own.bytes());
  }();
  if (program.empty()) return {};
  std::string all = program;
  for (const std::int64_t seq : {std::int64_t{1}, decision})
    each_row(
        record.database(), "SELECT kind, individual, stream, body, elapsed_s FROM decisions WHERE seq = ?",
        [&](SQLite::Statement& row) {
          for (int i = 0; i < 5; ++i) all += column<std::string>(row, i) + '\n';
        },
        seq);
  all += first_of<std::string>(record.database(),
                               "SELECT id || ' ' || variant_id || ' ' || proposed_at FROM individuals WHERE "
                               "id = (SELECT max(individual) FROM decisions WHERE seq = ?)",
                               decision);
  return sha256_hex(all);
}

void trim(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    files.emplace_back(entry.last_write_time(ignored), entry.path());
  std::ranges::sort(files, std::greater());
  std::uintmax_t total = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    total += fs::file_size(files[i].second, ignored);
    if (i > 0 && total > most_state_bytes) fs::remove(files[i].second, ignored);
  }
}

}  // namespace

fs::path SavedStates::file_of(const Record& record) const {
  const auto begun = first_of<std::string>(
      record.database(), "SELECT variant_id || ' ' || proposed_at FROM individuals WHERE id = 1");
  return folder_ / (sha256_hex(begun).substr(0, 32) + ".state");
}

void SavedStates::save(const Record& record, const Breeding& breeding) const {
  if (folder_.empty()) return;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  const fs::path unfinished = folder_ / fmt::format("unfinished.{}", ::getpid());
  try {
    std::ofstream out(unfinished, std::ios::binary);
    const auto decision =
        first_of<std::int64_t>(record.database(), "SELECT coalesce(max(seq), 0) FROM decisions");
    cereal::BinaryOutputArchive fields(out);
    fields(decision, identity(record, decision), breeding);
    out.flush();
    out << sha256_hex(MappedFile(unfinished).bytes()) << std::flush;
    // Not synced: after a power failure the digest does not fit.
    if (out) fs::rename(unfinished, file_of(record));
  } catch (const std::exception&) {
    // The disk may be full, for example: the search goes on, and a resume takes longer.
  }
  fs::remove(unfinished, ignored);
  trim(folder_);
}

std::int64_t SavedStates::load(const Record& record, Breeding& breeding) const {
  if (folder_.empty()) return 0;
  const MappedFile file(file_of(record));
  const std::string_view bytes = file.bytes();
  if (bytes.size() <= kDigest) return 0;
  const std::string_view content = bytes.substr(0, bytes.size() - kDigest);
  if (sha256_hex(content) != bytes.substr(content.size())) return 0;
  TextBuffer buffer(content);
  std::istream in(&buffer);
  cereal::BinaryInputArchive fields(in);
  std::int64_t decision = 0;
  std::string of;
  fields(decision, of);
  if (of.empty() || of != identity(record, decision)) return 0;
  fields(breeding);
  return decision;
}

}  // namespace cultivar
