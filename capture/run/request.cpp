#include "capture/run/request.h"

#include "capture/run/prompt_source.h"
#include "core/base/error.h"
#include "core/base/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

namespace kvloupe::capture {
namespace {

using nlohmann::json;

constexpr int kMostNewTokens = 1 << 20;
constexpr int kMostLevels = 16;
constexpr std::array kGenerationKeys = {"id",      "prompt",  "tokens",         "messages",
                                        "raw",     "until",   "max_new_tokens", "decode_from",
                                        "special", "tokenize"};
constexpr std::array kLikelihoodKeys = {"id", "context", "continuation", "decode_from", "special"};

Error unusable(std::string why, std::string remedy) {
  return input_error("the request is not usable", std::move(why), std::move(remedy));
}

[[noreturn]] void wrong_type(const char* key, const char* type) {
  throw unusable(fmt::format("its {} is not {}", key, type), "see docs/commands.md");
}

// The later of two members of one name would hide the other.
json parse(std::string_view line) {
  std::set<std::string> keys;
  std::optional<std::string> twice;
  bool too_deep = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    // What is made of nested values calls itself for each level.
    if (depth > kMostLevels) {
      too_deep = true;
      return false;
    }
    if (event == json::parse_event_t::key && depth == 1 && !keys.insert(parsed).second)
      twice = parsed.get<std::string>();
    return true;
  };
  json object = json::parse(line, watch, /*allow_exceptions=*/false);
  if (too_deep)
    throw unusable("the line is nested deeper than any request", "see docs/commands.md");
  if (object.is_discarded())
    throw unusable("the line is not JSON in UTF-8", "write one JSON object a line");
  if (!object.is_object())
    throw unusable("the line is no JSON object", R"(write it as in {"id": 1, "prompt": "Hello"})");
  if (twice) throw unusable(fmt::format("it has two members {}", printable(*twice)), "leave one");
  return object;
}

std::string id_of(const json& object) {
  const auto id = object.find("id");
  if (id == object.end()) return "null";
  return id->is_string() || id->is_number_integer() ? id->dump() : "null";
}

void check_keys(const json& object, bool likelihood) {
  const auto refuse_others = [&](const auto& known) {
    for (const auto& [key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        throw unusable(fmt::format("{} has no member {}", likelihood ? "a likelihood" : "a request",
                                   printable(key)),
                       fmt::format("it takes {}", fmt::join(known, ", ")));
  };
  likelihood ? refuse_others(kLikelihoodKeys) : refuse_others(kGenerationKeys);
}

std::string text_in(const json& value, const char* key) {
  if (!value.is_string()) wrong_type(key, "a text");
  std::string text = value.get<std::string>();
  if (text.find('\0') != std::string::npos)
    throw unusable(fmt::format("its {} holds a NUL character", key), "leave the character out");
  return text;
}

std::string some_text_in(const json& value, const char* key) {
  std::string text = text_in(value, key);
  if (text.empty()) throw unusable(fmt::format("its {} is empty", key), "give at least one word");
  return text;
}

std::int64_t integer_in(const json& value, const char* key, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) wrong_type(key, "a whole number");
  const bool huge = value.is_number_unsigned() &&
                    value.get<std::uint64_t>() >
                        static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (huge || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    throw unusable(fmt::format("its {} is {}", key, value.dump()),
                   fmt::format("give a number from {} to {}", least, most));
  return value.get<std::int64_t>();
}

bool truth_in(const json& value, const char* key) {
  if (!value.is_boolean()) wrong_type(key, "true or false");
  return value.get<bool>();
}

const json& list_in(const json& value, const char* key) {
  if (!value.is_array()) wrong_type(key, "a list");
  return value;
}

void read_generation(const json& object, Request& request) {
  int sources = 0;
  for (const auto& [key, value] : object.items()) {
    if (key == "prompt") {
      request.prompt = some_text_in(value, "prompt");
    } else if (key == "tokens") {
      for (const json& token : list_in(value, "tokens"))
        request.tokens.push_back(static_cast<std::int32_t>(
            integer_in(token, "token", 0, std::numeric_limits<std::int32_t>::max())));
      if (request.tokens.empty()) throw unusable("its tokens are empty", "give at least one");
    } else if (key == "messages") {
      request.messages = parse_messages(value.dump());
      for (const Message& message : request.messages) text_in(message.content, "message");
    } else if (key == "raw") {
      request.raw = truth_in(value, "raw");
    } else if (key == "tokenize") {
      request.tokenize = truth_in(value, "tokenize");
    } else if (key == "until") {
      for (const json& text : list_in(value, "until"))
        request.until.push_back(some_text_in(text, "until"));
    } else if (key == "max_new_tokens") {
      request.max_new_tokens =
          static_cast<int>(integer_in(value, "max_new_tokens", 0, kMostNewTokens));
    }
    sources += int(key == "prompt" || key == "tokens" || key == "messages");
  }
  if (sources != 1)
    throw unusable(sources == 0 ? "it has nothing to go on from" : "it has more than one prompt",
                   "give one of prompt, tokens and messages, or context with continuation");
  if (request.raw && !request.prompt)
    throw unusable("raw does not go with tokens or messages", "leave it out or give a prompt");
  if (request.special && !request.raw)
    throw unusable("special goes with a raw prompt alone", R"(give "raw": true, too)");
}

void read_likelihood(const json& object, Request& request) {
  if (!object.contains("context") || !object.contains("continuation"))
    throw unusable("it has only one of context and continuation", "give both");
  request.context = text_in(object["context"], "context");
  request.continuation = some_text_in(object["continuation"], "continuation");
}

Request request_of(const json& object) {
  if (!object.contains("id")) throw unusable("it has no id", "give a text or a whole number as id");
  if (id_of(object) == "null") wrong_type("id", "a text or a whole number");
  const bool likelihood = object.contains("context") || object.contains("continuation");
  check_keys(object, likelihood);
  Request request;
  if (object.contains("special")) request.special = truth_in(object["special"], "special");
  likelihood ? read_likelihood(object, request) : read_generation(object, request);
  const json from = object.value("decode_from", json());
  if (from.is_number()) {
    request.decode_from = integer_in(from, "decode_from", std::numeric_limits<std::int64_t>::min(),
                                     std::numeric_limits<std::int64_t>::max());
  } else if (!from.is_null()) {
    request.decode_from = some_text_in(from, "decode_from");
  }
  return request;
}

}  // namespace

RequestLine read_request(std::string_view line) {
  RequestLine read;
  try {
    const json object = parse(line);
    read.id = id_of(object);
    read.request = request_of(object);
  } catch (const Error& error) {
    read.error = error.what();
  }
  return read;
}

std::string before_stop(std::string text, const std::vector<std::string>& until) {
  std::size_t end = text.size();
  for (const std::string& stop : until) end = std::min(end, text.find(stop));
  text.resize(end);
  return text;
}

}  // namespace kvloupe::capture
