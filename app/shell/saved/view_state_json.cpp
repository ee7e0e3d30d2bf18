#include "app/shell/saved/view_state_json.h"

#include "app/shell/saved/state_files.h"
#include "core/base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace kvloupe::shell {
namespace {

using nlohmann::ordered_json;
using state::Texts;
using state::ViewField;

constexpr std::size_t kMostTexts = 64;

ordered_json json_of(const ViewField& field, const Texts& texts) {
  if (field.shape == ViewField::Shape::One) return json_of_bytes(texts.front());
  ordered_json json =
      field.shape == ViewField::Shape::Many ? ordered_json::array() : ordered_json::object();
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (field.shape == ViewField::Shape::Many)
      json.push_back(json_of_bytes(text));
    else
      json[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return json;
}

Texts texts_in(const ViewField& field, const ordered_json& json) {
  Texts texts;
  if (field.shape == ViewField::Shape::One) {
    // An empty text is a default that an earlier version wrote.
    if (const auto text = bytes_of_json(json); text && !text->empty()) texts.push_back(*text);
  } else if (field.shape == ViewField::Shape::Many && json.is_array()) {
    for (std::size_t i = 0; i < std::min(json.size(), kMostTexts); ++i)
      texts.push_back(bytes_of_json(json[i]).value_or(""));
  } else if (field.shape == ViewField::Shape::Named && json.is_object()) {
    for (const auto& [name, value] : json.items())
      if (value.is_string()) texts.push_back(name + "=" + value.get<std::string>());
  }
  return texts;
}

}  // namespace

ordered_json json_of_state(const state::ViewState& what, unsigned carriers) {
  ordered_json json = ordered_json::object();
  for (const ViewField& field : state::view_fields()) {
    if (!field.in(carriers)) continue;
    if (const Texts texts = field.write(what); !texts.empty())
      json[std::string(field.name)] = json_of(field, texts);
  }
  return json;
}

state::ViewState state_of_json(const ordered_json& json, unsigned carriers) {
  state::ViewState what;
  if (!json.is_object()) return what;
  for (const ViewField& field : state::view_fields()) {
    const auto found = json.find(field.name);
    if (!field.in(carriers) || found == json.end()) continue;
    const Texts texts = texts_in(field, *found);
    if (texts.empty()) continue;
    try {
      field.read(what, texts);
    } catch (const Error&) {
      // Of another version: the default.
    }
  }
  return what;
}

}  // namespace kvloupe::shell
