#include "engine/snapshot.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/asking_settings.hpp"
#include "engine/store/checkpoint.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Two sources of the same name from different folders stay apart.
std::string free_name(const json& files, const std::string& folder, const fs::path& file) {
  std::string name = folder + "/" + file.filename().string();
  for (int i = 2; files.contains(name); ++i)
    name = folder + "/" + file.stem().string() + "-" + std::to_string(i) + file.extension().string();
  return name;
}

}  // namespace

Expected<Config> take_snapshot(const Config& config, const std::string& task_name, const RunFolder& folder,
                               json& files) {
  constexpr std::uintmax_t kLargest = 1 << 20;  // a task is text; a data file beside it is not copied
  files = json::object();
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(config.task_folder, ec))
    if (entry.is_regular_file() && entry.file_size() <= kLargest)
      files[entry.path().filename().string()] = text_of(entry.path());
  if (ec) return failure("read task", config.task_folder.string() + ": " + ec.message());

  Config relative = config;
  const fs::path task = fs::path("task") / task_name;
  relative.task_folder = task;
  for (auto& seed : relative.seeds) {
    const std::string name = free_name(files, "seeds", seed);
    files[name] = read_source(seed);  // with its headers, as one text
    seed = task / name;
  }
  for (auto& contender : relative.contenders) {
    const std::string name = free_name(files, "contenders", contender);
    files[name] = read_source(contender);
    contender = task / name;
  }
  if (!config.models.empty()) {  // the prompts and notes that the run goes on with, whatever becomes of ours
    const PromptKit kit = prompt_kit(config.asking);
    for (const auto& [name, text] : kit.texts()) files["prompts/" + name] = text;
    relative.asking.templates = task / "prompts";
    relative.asking.knowledge.clear();
    for (const fs::path& notes : config.asking.knowledge) {
      for (const auto& entry : fs::directory_iterator(notes, ec))
        if (entry.path().extension() == ".md" && entry.path().filename() != "README.md")
          files["knowledge/" + entry.path().filename().string()] = text_of(entry.path());
      relative.asking.knowledge = {task / "knowledge"};
    }
  }
  auto written = restore_snapshot(files, task_name, folder);
  if (!written) return tl::make_unexpected(written.error());
  return relative;
}

Expected<void> restore_snapshot(const json& files, const std::string& task_name, const RunFolder& folder) {
  for (const auto& [name, text] : files.items()) {
    const fs::path file = folder.tasks() / task_name / name;
    std::error_code ec;
    fs::create_directories(file.parent_path(), ec);
    if (ec) return failure("write task", file.parent_path().string() + ": " + ec.message());
    if (fs::exists(file, ec) && text_of(file) == text.get<std::string>()) continue;
    if (auto written = write_atomically(file, text.get<std::string>()); !written) return written;
  }
  return {};
}

}  // namespace cultivar
