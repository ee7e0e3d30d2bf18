#include "capture/text/tokenizer_json.h"

#include "capture/text/parse_json.h"
#include "core/base/error.h"
#include "core/base/printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace kvloupe::capture {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxId = 1 << 22;
constexpr int kMaxDepth = 64;
constexpr std::size_t kMostPieces = 64;  // each is looked for in the whole vocabulary

Error refused(std::string why) {
  return input_error(
      "cannot use this tokenizer.json", std::move(why),
      "choose a model with a byte-level or SentencePiece-style BPE tokenizer, or its GGUF file");
}

const json& member(const json& object, const char* name) {
  static const json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string text_of(const json& object, const char* name) {
  const json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool flag(const json& object, const char* name, bool otherwise = false) {
  const json& value = member(object, name);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

std::string type_name(const json& component) { return printable(text_of(component, "type")); }

// A component, or each of a sequence's.
template <typename Use>
void for_each_component(const json& component, const char* list, const Use& use, int depth = 0) {
  if (component.is_null()) return;
  if (depth > kMaxDepth) throw refused("its components nest without end");
  if (text_of(component, "type") != "Sequence") return use(component);
  const json& parts = member(component, list);
  if (!parts.is_array()) throw refused(fmt::format("a sequence of it has no {}", list));
  for (const json& part : parts) for_each_component(part, list, use, depth + 1);
}

class Reader {
 public:
  explicit Reader(const json& root) : root_(&root) {}

  TokenizerData read() {
    const json& model = member(*root_, "model");
    // Files of some age name no type.
    const std::string type = text_of(model, "type");
    if (!model.is_object() ||
        (type != "BPE" && !(type.empty() && member(model, "merges").is_array())))
      throw refused(type.empty() ? "it describes no model"
                                 : fmt::format("its model \"{}\" is not BPE", printable(type)));
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_of(model, affix).empty())
        throw refused(fmt::format("its model has a {}, which is not implemented", affix));
    if (member(model, "dropout").is_number() && member(model, "dropout").get<double>() != 0)
      throw refused("its model drops merges at random");
    data_.ignores_merges = flag(model, "ignore_merges");

    for_each_component(member(*root_, "normalizer"), "normalizers",
                       [this](const json& part) { read_normaliser(part); });
    for_each_component(member(*root_, "pre_tokenizer"), "pretokenizers",
                       [this](const json& part) { read_pre_tokenizer(part); });
    settle_kind(model);
    read_vocabulary(model);
    read_added_tokens();
    read_merges(model);
    for_each_component(member(*root_, "post_processor"), "processors",
                       [this](const json& part) { read_post_processor(part); });
    return std::move(data_);
  }

 private:
  void read_normaliser(const json& part) {
    const std::string type = text_of(part, "type");
    if (type == "NFC" && !writes_spaces_) {
      data_.composes = true;
    } else if (type == "Prepend" && text_of(part, "prepend") == kSpaceSign) {
      data_.space_prefix = {SpacePrefix::When::Every, true};
    } else if (type == "Replace" && text_of(member(part, "pattern"), "String") == " " &&
               text_of(part, "content") == kSpaceSign) {
      writes_spaces_ = true;
    } else {
      throw refused(fmt::format("its normalizer \"{}\" is not implemented", type_name(part)));
    }
  }

  void read_pre_tokenizer(const json& part) {
    const std::string type = text_of(part, "type");
    if (type == "ByteLevel") {
      byte_level_ = true;
      if (flag(part, "add_prefix_space", true)) {
        if (!data_.splits.empty())
          throw refused(
              "its pre-tokenizer puts a space before every piece, which is not implemented");
        data_.space_prefix = {SpacePrefix::When::Every, false};
      }
      if (flag(part, "use_regex", true))
        data_.splits.push_back(named_pre_tokenizer("gpt-2")->splits.front());
    } else if (type == "Split") {
      read_split(part);
    } else if (type == "Digits") {
      data_.splits.push_back({flag(part, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)"});
    } else if (type == "Metaspace") {
      read_metaspace(part);
    } else {
      throw refused(fmt::format("its pre-tokenizer \"{}\" is not implemented", type_name(part)));
    }
  }

  void read_split(const json& part) {
    const json& pattern = member(part, "pattern");
    const std::string behavior = text_of(part, "behavior");
    const bool invert = flag(part, "invert");
    const std::string literal = text_of(pattern, "String");
    if (literal == " " && writes_spaces_) return;  // Gemma's: none is left to split at
    std::string expression = text_of(pattern, "Regex");
    if (expression.empty() && !literal.empty()) {
      // \Q...\E would end at an \E in the text.
      for (const char c : literal) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                           (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
        expression += plain ? std::string{c} : std::string{'\\', c};
      }
    }
    if (expression.empty()) throw refused("its pre-tokenizer \"Split\" has no pattern");
    if (behavior == "Isolated") {
      data_.splits.push_back({expression, true});
    } else if (behavior == "Removed" && invert) {
      data_.splits.push_back({expression, false});
    } else {
      throw refused(
          fmt::format("the behavior \"{}\" of its pre-tokenizer \"Split\" is not implemented",
                      printable(behavior)));
    }
  }

  void read_metaspace(const json& part) {
    if (text_of(part, "replacement") != kSpaceSign)
      throw refused("its pre-tokenizer \"Metaspace\" writes spaces in another way than U+2581");
    writes_spaces_ = true;
    const std::string scheme = text_of(part, "prepend_scheme");
    if (scheme == "always" || (scheme.empty() && flag(part, "add_prefix_space", true))) {
      data_.space_prefix = {SpacePrefix::When::Every, false};
    } else if (scheme == "first") {
      data_.space_prefix = {SpacePrefix::When::First, false};
    }
    if (flag(part, "split", true)) data_.splits.push_back({"[ \u2581][^ \u2581]*|[^ \u2581]+"});
  }

  void settle_kind(const json& model) {
    if (byte_level_) {
      if (writes_spaces_) throw refused("it is byte-level and writes spaces as U+2581 too");
      data_.kind = TokenizerKind::ByteLevel;
      if (data_.splits.empty()) data_.splits.push_back({R"([\s\S]+)"});
      return;
    }
    if (!writes_spaces_ || !flag(model, "byte_fallback"))
      throw refused("it is neither byte-level nor SentencePiece-style with a byte fallback");
    data_.kind = TokenizerKind::Merges;
  }

  void set_token(std::int64_t id, std::string text, TokenType type) {
    if (id < 0 || id >= kMaxId) throw refused(fmt::format("it has a token of the id {}", id));
    const auto index = static_cast<std::size_t>(id);
    if (index >= data_.tokens.size()) {
      data_.tokens.resize(index + 1);
      data_.types.resize(index + 1, static_cast<std::int32_t>(TokenType::Unused));
    }
    if (!data_.tokens[index].empty() && data_.tokens[index] != text)
      throw refused(fmt::format("two tokens of it have the id {}", id));
    data_.tokens[index] = std::move(text);
    data_.types[index] = static_cast<std::int32_t>(type);
  }

  void read_vocabulary(const json& model) {
    const json& vocabulary = member(model, "vocab");
    if (!vocabulary.is_object()) throw refused("its model has no vocabulary");
    for (const auto& [text, id] : vocabulary.items()) {
      if (!id.is_number_integer()) throw refused("a token of its vocabulary has no id");
      const bool byte =
          data_.kind == TokenizerKind::Merges && text.size() == 6 && text.starts_with("<0x");
      set_token(id.get<std::int64_t>(), text, byte ? TokenType::Byte : TokenType::Normal);
    }
  }

  void read_added_tokens() {
    const json& added = member(*root_, "added_tokens");
    if (!added.is_array() && !added.is_null()) throw refused("its added tokens are no list");
    for (const json& token : added) {
      const std::string text = text_of(token, "content");
      if (text.empty() || !member(token, "id").is_number_integer())
        throw refused("an added token of it has no text or no id");
      for (const char* rule : {"single_word", "lstrip", "rstrip"})
        if (flag(token, rule))
          throw refused(
              fmt::format("its added token \"{}\" is found by {}, which is not implemented",
                          printable(text), rule));
      set_token(member(token, "id").get<std::int64_t>(), text,
                flag(token, "special") ? TokenType::Control : TokenType::UserDefined);
    }
    for (std::size_t id = 0; id < data_.tokens.size(); ++id)
      if (data_.tokens[id].empty()) data_.tokens[id] = fmt::format("<unused id {}>", id);
  }

  void read_merges(const json& model) {
    const json& merges = member(model, "merges");
    if (!merges.is_array()) throw refused("its model has no merges");
    std::set<std::string> controls;
    for (std::size_t id = 0; id < data_.tokens.size(); ++id)
      if (data_.types[id] == static_cast<std::int32_t>(TokenType::Control))
        controls.insert(data_.tokens[id]);
    for (const json& merge : merges) {
      std::string pair;
      if (merge.is_string()) {
        pair = merge.get<std::string>();
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        pair = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
      } else {
        throw refused(fmt::format("merge {} of it is no pair", data_.merges.size()));
      }
      std::string product = pair;
      if (const auto space = product.find(' '); space != product.npos) product.erase(space, 1);
      // Conversions from SentencePiece list "</ s>" too: text would become a control token.
      if (!controls.contains(product)) data_.merges.push_back(std::move(pair));
    }
  }

  void read_post_processor(const json& part) {
    const std::string type = text_of(part, "type");
    if (type == "ByteLevel") return;  // trims offsets, adds nothing
    if (type != "TemplateProcessing")
      throw refused(fmt::format("its post-processor \"{}\" is not implemented", type_name(part)));
    const json& single = member(part, "single");
    if (!single.is_array()) return;
    if (single.size() > kMostPieces) throw refused("its post-processor adds tokens without end");
    bool text_came = false;
    for (const json& piece : single) {
      if (piece.contains("Sequence")) text_came = true;
      if (!member(piece, "SpecialToken").is_object() || text_came) continue;
      const std::string text = text_of(member(piece, "SpecialToken"), "id");
      for (std::size_t id = 0; id < data_.tokens.size(); ++id)
        if (data_.tokens[id] == text) data_.bos = static_cast<std::int32_t>(id);
      data_.adds_bos = data_.bos >= 0;
    }
  }

  const json* root_;
  TokenizerData data_;
  bool byte_level_ = false;
  bool writes_spaces_ = false;  // a space becomes U+2581
};

}  // namespace

TokenizerData parse_tokenizer_json(std::string_view content) {
  const json root = parse_json(content);
  if (!root.is_object()) throw refused("it is no JSON object, or nests without end");
  return Reader(root).read();
}

}  // namespace kvloupe::capture
