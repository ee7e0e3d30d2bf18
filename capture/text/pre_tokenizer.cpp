// PCRE2, since these expressions need Unicode's classes and look ahead. llama.cpp's own splitting is left aside: it writes
// several of them anew for std::regex, which has no classes beyond ASCII (other tokens for Hindi or Russian with the
// vocabulary of GPT-OSS) and overflows the stack on a long word.
#include "capture/text/pre_tokenizer.h"

#include "core/base/code_point.h"
#include "core/base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr std::size_t kMaxPatternBytes = 1 << 16;

Error unusable_pattern(std::string why) {
  return input_error("cannot use the pre-tokenizer of this model", std::move(why),
                     "choose a model whose tokenizer is known");
}

// What Oniguruma takes for a character of a word: marks, too.
constexpr const char* kWord = "\\p{L}\\p{M}\\p{Nd}\\p{Pc}";

// Whether the brace closes {n}, {n,} or {n,m}, and not \p{N}.
bool repeats_before(std::string_view pattern, std::size_t brace) {
  const std::size_t open = pattern.rfind('{', brace);
  return open != pattern.npos && open + 1 < brace &&
         pattern.substr(open + 1, brace - open - 1).find_first_not_of("0123456789,") ==
             pattern.npos;
}

// The file's expression in PCRE2's words. \s is Unicode's White_Space there; an escape that the two libraries read
// differently is refused.
std::string in_pcre(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes)
    throw unusable_pattern(fmt::format("its regular expression has {} bytes", pattern.size()));
  if (pattern.find("&&") != pattern.npos)
    throw unusable_pattern(
        "its regular expression intersects classes (&&), which is not implemented");
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      // There the plus repeats the repetition, in PCRE2 it makes it possessive.
      if (!in_class && pattern.substr(i).starts_with("}+") && repeats_before(pattern, i))
        throw unusable_pattern("its regular expression has {..}+, which is not implemented");
      in_class = pattern[i] == '[' || (in_class && pattern[i] != ']');
      result += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    const bool letter = (escaped | 0x20) >= 'a' && (escaped | 0x20) <= 'z';
    if (escaped == 's') {
      result += "\\p{White_Space}";
    } else if (escaped == 'S') {
      result += "\\P{White_Space}";
    } else if (escaped == 'w') {
      result += in_class ? kWord : fmt::format("[{}]", kWord);
    } else if (escaped == 'W' && !in_class) {
      result += fmt::format("[^{}]", kWord);
    } else if (!letter ||
               std::string_view("pPrntvfdDbxu").find(escaped) != std::string_view::npos) {
      result += {'\\', escaped};
    } else {
      throw unusable_pattern(
          fmt::format("its regular expression holds \\{}, which is not implemented", escaped));
    }
  }
  return result;
}

// The length of the leading part that is UTF-8 (`valid`) or is not.
std::size_t run_length(std::string_view text, bool valid) {
  std::size_t end = 0;
  while (end < text.size()) {
    if (static_cast<unsigned char>(text[end]) < 0x80) {
      if (!valid) break;
      ++end;
      continue;
    }
    const CodePoint next = first_code_point(text.substr(end));
    if ((next.number >= 0) != valid) break;
    end += next.bytes;
  }
  return end;
}

template <typename T, void (*Free)(T*)>
struct FreeWith {
  void operator()(T* pointer) const { Free(pointer); }
};
using Code = std::unique_ptr<pcre2_code, FreeWith<pcre2_code, pcre2_code_free>>;
using MatchData =
    std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data, pcre2_match_data_free>>;

}  // namespace

class PreTokenizer::Rule {
 public:
  explicit Rule(const SplitRule& rule) : keeps_rest_(rule.keeps_rest) {
    const std::string pattern = in_pcre(rule.pattern);
    int code = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &offset, nullptr));
    if (!code_) {
      std::array<PCRE2_UCHAR, 256> message{};
      pcre2_get_error_message(code, message.data(), message.size());
      throw unusable_pattern(fmt::format("its regular expression cannot be read ({})",
                                         reinterpret_cast<const char*>(message.data())));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // slower without
  }

  // Appends the pieces of `text`, which is UTF-8.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const {
    const MatchData match(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    std::size_t done = 0;
    for (std::size_t from = 0; from < text.size();) {
      if (!find(text, from, match.get())) break;
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      const std::size_t begin = range[0], end = range[1];
      if (end <= begin) {  // nothing was taken: on with the next character
        from = begin + 1;
        while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80)
          ++from;
        continue;
      }
      if (begin > done && keeps_rest_) pieces.push_back(text.substr(done, begin - done));
      pieces.push_back(text.substr(begin, end - begin));
      from = done = end;
    }
    if (done < text.size() && keeps_rest_) pieces.push_back(text.substr(done));
  }

 private:
  bool find(std::string_view text, std::size_t from, pcre2_match_data* match) const {
    const auto run = [&](std::uint32_t options) {
      return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, match, nullptr);
    };
    int found = run(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = run(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0)
      throw input_error("cannot cut the text into pieces for the tokenizer",
                        fmt::format("its regular expression gives up at byte {}", from),
                        "choose a model whose tokenizer is known");
    return true;
  }

  Code code_;
  bool keeps_rest_;
};

PreTokenizer::PreTokenizer(const std::vector<SplitRule>& rules) {
  for (const SplitRule& rule : rules) rules_.emplace_back(rule);
}
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces, finer;
  bool valid = true;
  for (std::size_t done = 0; done < text.size(); valid = !valid) {
    const std::string_view run = text.substr(done, run_length(text.substr(done), valid));
    done += run.size();
    if (run.empty()) continue;
    if (!valid) {
      pieces.push_back(run);
      continue;
    }
    std::vector<std::string_view> parts = {run};
    for (const Rule& rule : rules_) {
      finer.clear();
      for (const std::string_view part : parts) rule.split(part, finer);
      parts.swap(finer);
    }
    pieces.insert(pieces.end(), parts.begin(), parts.end());
  }
  return pieces;
}

}  // namespace kvloupe::capture
