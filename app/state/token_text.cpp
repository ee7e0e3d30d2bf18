// See token_text.h.
#include "app/state/token_text.h"

#include "core/base/code_point.h"
#include "core/base/letters.h"
#include "core/base/printable.h"

#include <algorithm>
#include <set>

namespace kvloupe::state {
namespace {

constexpr std::size_t kMostInName = 400;  // code points

}  // namespace

std::string readable_text(std::string_view bytes) {
  std::string out;
  for (;;) {
    const std::size_t end = std::min(bytes.find_first_of("\n\t"), bytes.size());
    out += printable(bytes.substr(0, end));
    if (end == bytes.size()) return out;
    out += bytes[end] == '\n' ? "\u21B5" : "\u2192";
    bytes.remove_prefix(end + 1);
  }
}

std::string readable_token(std::string_view bytes) {
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (begin < end && bytes[begin] == ' ') ++begin;
  while (end > begin && bytes[end - 1] == ' ') --end;
  std::string out;
  for (std::size_t i = 0; i < begin; ++i) out += "\u00B7";
  out += readable_text(bytes.substr(begin, end - begin));
  for (std::size_t i = end; i < bytes.size(); ++i) out += "\u00B7";
  return out.empty() ? "(empty)" : out;
}

bool begins_word(std::string_view bytes) {
  if (bytes.empty()) return false;
  const auto first = static_cast<unsigned char>(bytes.front());
  return first == ' ' || first == '\n' || first == '\t' || first >= 0xE3;
}

std::vector<char32_t> unusual_code_points(const std::vector<std::string>& texts) {
  std::set<char32_t> found;
  for (const std::string& text : texts)
    for_each_code_point(text, [&](std::int32_t code_point, std::string_view) {
      if (code_point >= 0x0530) found.insert(static_cast<char32_t>(code_point));
    });
  return {found.begin(), found.end()};
}

std::string readable_name(std::string_view name) {
  if (name.find_first_not_of(' ') == std::string_view::npos) return "(no name)";
  const std::string text = printable(name.substr(0, 4 * kMostInName));
  std::string shown;
  std::size_t shown_code_points = 0;
  for (const char byte : text) {
    const bool begins = (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
    if (begins && ++shown_code_points > kMostInName) return shown + "\u2026";
    if (byte == '#' && shown.ends_with('#')) shown += "\u2009";
    shown += byte;
  }
  return shown;
}

std::vector<TokenRange> find_text(const std::vector<std::string>& tokens, std::string_view needle) {
  std::vector<TokenRange> found;
  if (needle.empty()) return found;
  std::string text;
  std::vector<std::size_t> begins;
  for (const std::string& token : tokens) {
    begins.push_back(text.size());
    text += lower_case(token);
  }
  const auto token_at = [&](std::size_t byte) {
    return static_cast<std::int32_t>(std::upper_bound(begins.begin(), begins.end(), byte) -
                                     begins.begin() - 1);
  };
  const std::string wanted = lower_case(std::string(needle));
  for (std::size_t at = text.find(wanted); at != std::string::npos;
       at = text.find(wanted, at + 1)) {
    const TokenRange match{token_at(at), token_at(at + wanted.size() - 1) + 1};
    if (found.empty() || found.back().begin != match.begin) found.push_back(match);
  }
  return found;
}

}  // namespace kvloupe::state
