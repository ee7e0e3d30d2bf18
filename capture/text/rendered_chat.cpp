// Text of a message never becomes a special token, whatever the template makes of it: the engine marks what came from a
// message, and each special token's text in a message is broken by a sign that no text has, until pieces are cut.
#include "capture/text/rendered_chat.h"

#include "core/base/error.h"
#include "core/base/letters.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace kvloupe::capture {
namespace {

// One of the code points that never stand for a character, and that is in none of the texts.
std::string break_for(const std::string& chat_template, const std::vector<Message>& messages) {
  std::string sign = "\ufdd0";
  const auto is_used = [&] {
    return chat_template.find(sign) != std::string::npos ||
           std::any_of(messages.begin(), messages.end(), [&](const Message& message) {
             return message.content.find(sign) != std::string::npos;
           });
  };
  for (; is_used(); ++sign.back())
    if (sign == "\ufdef")
      throw input_error("cannot build the prompt from the model's chat template",
                        "the messages hold every code point that is no character",
                        "leave one of U+FDD0 to U+FDEF out or use --raw");
  return sign;
}

std::size_t first_character_bytes(std::string_view text) {
  std::size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
  return bytes;
}

std::string text_of_token(const Tokenizer& tokenizer, std::int32_t id) {
  return id < 0 ? std::string() : tokenizer.decode_bytes(id);
}

class Renderer {
 public:
  Renderer(const Tokenizer& tokenizer, const std::vector<Message>& messages, TemplateDay day)
      : tokenizer_(&tokenizer),
        day_(day),
        literals_(tokenizer.special_literals()),
        break_(break_for(tokenizer.chat_template(), messages)),
        plain_(messages) {
    for (const Message& message : messages)
      messages_.push_back({message.role, with_breaks(message.content)});
  }

  RenderedChat render() {
    cut(render_parts(messages_, true));
    find_answer();
    chat_.size = whole_.size();
    tile();
    return std::move(chat_);
  }

 private:
  std::string with_breaks(std::string text) const {
    for (const std::string& literal : literals_)
      for (std::size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + 1))
        text.insert(at + first_character_bytes(literal), break_);
    return text;
  }
  std::string without_breaks(std::string text) const {
    for (std::size_t at = text.find(break_); at != text.npos; at = text.find(break_, at))
      text.erase(at, break_.size());
    return text;
  }

  std::vector<RenderedPart> render_parts(const std::vector<Message>& messages, bool answer) const {
    return render_chat_template(tokenizer_->chat_template(),
                                {messages, text_of_token(*tokenizer_, tokenizer_->bos()),
                                 text_of_token(*tokenizer_, tokenizer_->eos()), answer, day_});
  }

  // nullopt for messages that the template refuses.
  std::optional<std::string> rendered_text(std::size_t count) const {
    try {
      std::string text;
      const auto first = messages_.begin();
      for (const RenderedPart& part :
           render_parts({first, first + static_cast<std::ptrdiff_t>(count)}, false))
        text += without_breaks(part.text);
      return text;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  void add(std::string text, SpecialTokens special) {
    whole_ += text;
    if (!text.empty()) chat_.pieces.push_back({std::move(text), special});
  }

  void cut(const std::vector<RenderedPart>& parts) {
    chat_.contents.resize(plain_.size());
    for (const RenderedPart& part : parts) {
      if (part.is_content) {
        const std::string text = without_breaks(part.text);
        place(text, whole_.size());
        add(text, SpecialTokens::Literal);
        continue;
      }
      // A message's text that lost its mark still has its breaks: no token reaches over a cut.
      std::string_view rest = part.text;
      for (std::size_t at = rest.find(break_); at != rest.npos; at = rest.find(break_)) {
        add(std::string(rest.substr(0, at)), SpecialTokens::Parse);
        rest.remove_prefix(at + break_.size());
      }
      add(std::string(rest), SpecialTokens::Parse);
    }
  }

  // Messages come in their order; several may stand in one part.
  void place(std::string_view text, std::size_t begin) {
    while (!text.empty() && next_ < plain_.size()) {
      const auto found = match(text);
      if (!found) return;
      const auto& [message, content_begin, length] = *found;
      chat_.contents[message] = PlacedContent{begin, content_begin, length};
      next_ = message + 1;
      text.remove_prefix(length);
      begin += length;
    }
  }

  struct Match {
    std::size_t message = 0, content_begin = 0, length = 0;
  };
  std::optional<Match> match(std::string_view text) const {
    for (std::size_t i = next_; i < plain_.size(); ++i) {  // all of it, or all but white space
      const std::string_view content = plain_[i].content, core = trimmed(content, " \t\n\v\f\r");
      if (!content.empty() && text == content) return Match{i, 0, content.size()};
      if (!core.empty() && text == core)
        return Match{i, static_cast<std::size_t>(core.data() - content.data()), core.size()};
    }
    for (std::size_t i = next_; i < plain_.size(); ++i) {  // a begin of it, or a part
      const std::string_view content = plain_[i].content;
      if (!content.empty() && text.starts_with(content)) return Match{i, 0, content.size()};
      if (const auto at = content.find(text); at != content.npos) return Match{i, at, text.size()};
    }
    return std::nullopt;
  }

  // The header of the answer, and with it the marker that begins every message.
  void find_answer() {
    answer_begin_ = whole_.size();
    const auto without = rendered_text(plain_.size());
    if (!without || !whole_.starts_with(*without)) return;
    answer_begin_ = without->size();
    const std::string_view header = std::string_view(whole_).substr(answer_begin_);
    for (const std::string& literal : literals_)
      if (header.starts_with(literal) && literal.size() > marker_.size()) marker_ = literal;
  }

  // The last begin of a message between two bytes; npos: none.
  std::size_t last_marker(std::size_t begin, std::size_t end) const {
    if (marker_.empty() || begin >= end) return std::string::npos;
    const auto at = std::string_view(whole_).substr(0, end).rfind(marker_);
    return at == std::string::npos || at < begin ? std::string::npos : at;
  }

  std::size_t content_begin(std::size_t message) const {
    for (std::size_t i = message; i < plain_.size(); ++i)
      if (chat_.contents[i]) return chat_.contents[i]->begin;
    return answer_begin_;
  }

  std::size_t begin_of(std::size_t message, std::size_t least) const {
    const std::size_t most = std::max(least, content_begin(message));
    if (chat_.contents[message])
      if (const auto at = last_marker(least, most); at != std::string::npos) return at;
    if (const auto before = rendered_text(message))
      if (whole_.starts_with(*before) && before->size() >= least && before->size() <= most)
        return before->size();
    return least;
  }

  void tile() {
    std::vector<std::pair<std::string, std::size_t>> begins;  // role, byte
    const std::size_t first =
        chat_.contents[0] ? last_marker(0, content_begin(0)) : std::string::npos;
    const bool adds_system = plain_[0].role != "system" && first != std::string::npos &&
                             last_marker(0, first) != std::string::npos;
    if (adds_system) begins.emplace_back("system", 0);
    begins.emplace_back(plain_[0].role, adds_system ? first : 0);
    for (std::size_t i = 1; i < plain_.size(); ++i) {
      std::size_t least = begins.back().second;
      if (const auto& before = chat_.contents[i - 1])
        least = std::max(least, before->begin + before->length);
      begins.emplace_back(plain_[i].role, begin_of(i, least));
    }
    begins.emplace_back("assistant", answer_begin_);
    for (std::size_t i = 0; i < begins.size(); ++i)
      chat_.roles.push_back({begins[i].first, begins[i].second,
                             i + 1 < begins.size() ? begins[i + 1].second : whole_.size()});
  }

  const Tokenizer* tokenizer_;
  TemplateDay day_;
  std::vector<std::string> literals_;
  std::string break_;
  std::vector<Message> plain_, messages_;  // the second with breaks
  RenderedChat chat_;
  std::string whole_;
  std::string marker_;
  std::size_t answer_begin_ = 0;
  std::size_t next_ = 0;  // the message to be placed
};

}  // namespace

RenderedChat render_chat(const Tokenizer& tokenizer, const std::vector<Message>& messages,
                         TemplateDay day) {
  return Renderer(tokenizer, messages, day).render();
}

}  // namespace kvloupe::capture
