#include "capture/text/normalised_text.h"

#include "core/base/code_point.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

namespace kvloupe::capture {
namespace {

// Whether it may change or join what stands before it when a text is composed.
bool leans_back(utf8proc_int32_t code) {
  if (code < 0x300) return false;
  if (code >= 0x1161 && code <= 0x11ff) return true;  // vowels and finals of Hangul
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return true;
    default: return utf8proc_get_property(code)->combining_class != 0;
  }
}

std::string composed(std::string_view cluster) {
  utf8proc_uint8_t* result = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(cluster.data()),
                   static_cast<utf8proc_ssize_t>(cluster.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(result, std::free);
  if (size < 0) return std::string(cluster);
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(size)};
}

// Of UTF-8.
std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t pos = 0; pos < text.size(); pos += characters.back().size())
    characters.push_back(text.substr(pos, first_code_point(text.substr(pos)).bytes));
  return characters;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

class NormalisedText::Writer {
 public:
  explicit Writer(const NormalisedText& from) : from_(&from) {}

  void copy(std::size_t begin, std::size_t bytes) {
    text_.append(from_->text_, begin, bytes);
    for (std::size_t i = 0; i < bytes; ++i) sources_.push_back(from_->source(begin + i));
  }
  void put(std::string_view text, std::size_t source_byte) {
    text_ += text;
    sources_.resize(text_.size(), from_->source(source_byte));
  }
  // Characters that are the same at both ends belong together, those between from left to right.
  void align(std::string_view before, std::size_t begin, std::string_view after) {
    const auto from = characters_of(before), to = characters_of(after);
    const std::size_t most = std::min(from.size(), to.size());
    std::size_t same = 0, same_at_end = 0;
    while (same < most && from[same] == to[same]) ++same;
    while (same_at_end < most - same &&
           from[from.size() - 1 - same_at_end] == to[to.size() - 1 - same_at_end])
      ++same_at_end;
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::size_t source = std::min(i, from.size() - 1);
      if (i >= to.size() - same_at_end) {
        source = i + from.size() - to.size();
      } else if (i >= same) {
        const std::size_t changed = from.size() - same - same_at_end;
        source = same + std::min(i - same, changed == 0 ? 0 : changed - 1);
      }
      put(to[i], begin + static_cast<std::size_t>(from[source].data() - before.data()));
    }
  }
  void give(NormalisedText& to) {
    to.text_ = std::move(text_);
    to.sources_ = std::move(sources_);
  }

 private:
  const NormalisedText* from_;
  std::string text_;
  std::vector<std::size_t> sources_;
};

void NormalisedText::compose() {
  if (is_ascii(text_)) return;
  Writer writer(*this);
  for (std::size_t begin = 0; begin < text_.size();) {
    const CodePoint first = first_code_point(std::string_view(text_).substr(begin));
    std::size_t end = begin + first.bytes;
    while (first.number >= 0 && end < text_.size()) {
      const CodePoint next = first_code_point(std::string_view(text_).substr(end));
      if (next.number < 0 || !leans_back(next.number)) break;
      end += next.bytes;
    }
    const std::string_view cluster = std::string_view(text_).substr(begin, end - begin);
    const std::string result = first.number < 0 ? std::string(cluster) : composed(cluster);
    if (result == cluster) {
      writer.copy(begin, cluster.size());
    } else {
      writer.align(cluster, begin, result);
    }
    begin = end;
  }
  writer.give(*this);
}

void NormalisedText::replace_invalid() {
  if (is_ascii(text_)) return;
  Writer writer(*this);
  for (std::size_t pos = 0; pos < text_.size();) {
    const CodePoint c = first_code_point(std::string_view(text_).substr(pos));
    if (c.number >= 0) {
      writer.copy(pos, c.bytes);
    } else {
      writer.put("\ufffd", pos);
      ++replaced_;
    }
    pos += c.bytes;
  }
  if (replaced_ > 0) writer.give(*this);
}

void NormalisedText::prefix_space() {
  Writer writer(*this);
  if (text_.empty()) return;
  writer.put(" ", 0);
  writer.copy(0, text_.size());
  writer.give(*this);
}

}  // namespace kvloupe::capture
