// SPDX-License-Identifier: Apache-2.0
// Builds a tree from yaml-cpp's events. Not from YAML::Node, because a Node hides duplicate keys, loses the
// lines of keys, and expands aliases (a text of a hundred bytes could grow without bound).
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>
#include <unordered_map>
#include <utility>

#include "evaluators/yaml/yaml_data.hpp"

namespace cultivar {
namespace {

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string origin, int first_line)
      : origin_(std::make_shared<const std::string>(std::move(origin))), first_line_(first_line) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(begun_, true))
      throw YamlError(
          *origin_, line(mark),
          "more than one document: another begins here (put each into a file of its own, or remove "
          "the ---; without one, check that the lines above belong to the keys below them)");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse(mark, "", anchor);
    add(mark, YamlNode::Kind::null);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YamlError(*origin_, line(mark), "aliases (*name) are not supported (write the value out)");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse(mark, tag, anchor);
    if (open_.empty() || open_.back().data->kind != YamlNode::Kind::map || open_.back().has_key) {
      auto& data = add(mark, YamlNode::Kind::scalar);
      data.text = value;
      data.quoted = tag == "!";
      return;
    }
    Open& map = open_.back();
    if (value.size() > longest_yaml_name)
      throw YamlError(*origin_, line(mark),
                      fmt::format("a key is longer than {} bytes (shorten it)", longest_yaml_name));
    if (const auto [first, fresh] = map.lines.try_emplace(value, line(mark)); !fresh)
      throw YamlError(
          *origin_, line(mark),
          fmt::format("the key '{}' is given twice, first on line {} (remove one)", value, first->second));
    map.key = value;
    map.key_line = line(mark);
    map.has_key = true;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse(mark, tag, anchor);
    begin(mark, YamlNode::Kind::sequence);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse(mark, tag, anchor);
    begin(mark, YamlNode::Kind::map);
  }
  void OnMapEnd() override { open_.pop_back(); }

  int line(const YAML::Mark& mark) const { return mark.is_null() ? first_line_ : mark.line + first_line_; }
  std::shared_ptr<const YamlData> root() {
    if (!root_) {
      root_ = std::make_shared<YamlData>();
      root_->origin = origin_;
      root_->line = first_line_;
    }
    return root_;
  }
  const std::string& origin() const { return *origin_; }

 private:
  struct Open {
    std::shared_ptr<YamlData> data;
    std::string key;
    int key_line = 0;
    bool has_key = false;
    std::unordered_map<std::string, int> lines = {};  // of the map's keys
  };

  void refuse(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor)
      throw YamlError(*origin_, line(mark),
                      "anchors (&name) are not supported (quote the value if it begins with &)");
    if (!tag.empty() && tag != "?" && tag != "!")
      throw YamlError(*origin_, line(mark), fmt::format("the tag '{}' is not supported (remove it)", tag));
  }

  YamlData& add(const YAML::Mark& mark, YamlNode::Kind kind) {
    auto data = std::make_shared<YamlData>();
    data->kind = kind;
    data->line = line(mark);
    data->origin = origin_;
    last_ = data;
    if (open_.empty()) {
      root_ = data;
    } else if (Open& parent = open_.back(); parent.data->kind == YamlNode::Kind::sequence) {
      parent.data->items.push_back(data);
    } else if (parent.has_key) {
      data->line = kind == YamlNode::Kind::null ? parent.key_line : data->line;
      parent.data->entries.push_back({std::move(parent.key), parent.key_line, data});
      parent.has_key = false;
    } else {
      throw YamlError(*origin_, line(mark),
                      "a key must be a plain name, not a list or a map (check for an unclosed bracket)");
    }
    return *data;
  }

  void begin(const YAML::Mark& mark, YamlNode::Kind kind) {
    add(mark, kind);
    if (open_.size() > 64)
      throw YamlError(*origin_, line(mark), "is nested more than 64 levels deep (flatten it)");
    open_.push_back({last_, {}, 0, false, {}});
  }

  std::shared_ptr<const std::string> origin_;
  int first_line_;
  bool begun_ = false;  // a document
  std::shared_ptr<YamlData> root_, last_;
  std::vector<Open> open_;
};

}  // namespace

YamlNode parse_yaml(std::string_view text, std::string origin, int first_line) {
  TreeBuilder builder(std::move(origin), first_line);
  if (text.size() > most_yaml_bytes)
    throw YamlError(builder.origin(), 0,
                    fmt::format("is longer than {} bytes (shorten it)", most_yaml_bytes));
  // yaml-cpp accepts a quote that is still open after the last line break, so remove that line break.
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  std::istringstream in{std::string(text.substr(0, last == std::string_view::npos ? 0 : last + 1))};
  try {
    YAML::Parser parser(in);
    parser.HandleNextDocument(builder);
    parser.HandleNextDocument(builder);  // refused if there is one
    return YamlNode(builder.root());
  } catch (const YAML::Exception& error) {
    std::string remedy = "check quotes, brackets and indentation";
    if (text.find('\t') != std::string_view::npos) remedy += "; indent with blanks, not tabs";
    throw YamlError(builder.origin(), builder.line(error.mark),
                    fmt::format("is not valid YAML: {} ({})", error.msg, remedy));
  }
}

}  // namespace cultivar
