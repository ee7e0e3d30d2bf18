// A vocabulary and the rules that go with it, as a model's files give them. Plain data, without an engine.
#pragma once

#include "capture/text/pre_tokenizer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

enum class TokenizerKind {
  ByteLevel,  // merges over bytes, written in GPT-2's printable alphabet
  Merges,  // merges over characters, spaces written as U+2581, bytes where a character has no token
  Scores,  // SentencePiece: as Merges, but the adjacent pair whose token scores highest merges first
};

// The kinds of tokens, with the numbers of the GGUF format.
enum class TokenType : std::int32_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,  // found in any text before it is cut
  Unused = 5,
  Byte = 6,  // "<0x0A>"
};

// The sign for a space in tokens of SentencePiece.
inline constexpr std::string_view kSpaceSign = "\u2581";

// Is left out where a text is shown.
inline bool is_control(TokenType type) {
  return type == TokenType::Control || type == TokenType::Unknown;
}

// Where a text gets a space before its first character (a begin of a word, to SentencePiece).
struct SpacePrefix {
  enum class When {
    Never,
    First,
    Every
  };  // First: at the begin alone; Every: after special tokens too
  When when = When::Never;
  bool even_before_space = true;
};

struct TokenizerData {
  TokenizerKind kind = TokenizerKind::ByteLevel;
  std::vector<std::string> tokens;  // by id
  std::vector<std::int32_t> types;  // TokenType by id; empty: all normal
  std::vector<float> scores;        // by id, for Scores
  std::vector<std::string> merges;  // "left right", by rank
  std::string pre_tokenizer;        // a name of llama.cpp ("smollm"): instead of `splits`
  std::vector<SplitRule> splits;    // for ByteLevel
  bool ignores_merges = false;      // a piece that is a token is not merged from its parts
  bool composes = false;            // Unicode's NFC first
  SpacePrefix space_prefix;
  std::int32_t bos = -1, eos = -1;
  std::vector<std::int32_t> more_ends;  // further tokens that end an answer
  bool adds_bos = false;
  std::string chat_template;  // Jinja; empty: none
};

// Fills `splits` and what else a name of `pre_tokenizer` stands for. Throws Error{Input} for a name that is not known, and
// for data that contradict themselves: those would end the program inside llama.cpp.
void complete_and_check(TokenizerData& data);

// Some files call markers of the chat plain text: the template's would be cut into letters, and answers would not end. They
// become control tokens: those of an answer's end by their names, and of plain tokens "<...>" those that begin or end a text
// or stand in the chat template. What merges make of text stays text; where a vocabulary has scores in their place, the
// template's are those that begin as markers do ("<|", "<start_of_", "<end_of_"). Returns the markers.
std::vector<std::string> type_markers(TokenizerData& data);

// Control tokens that end an answer in the families known, by their names: for files that list no more than one. A message
// that GPT-OSS ends by <|end|> may be followed by another.
std::vector<std::int32_t> ends_by_name(const TokenizerData& data);

TokenType type_of(const TokenizerData& data, std::int32_t id);
// GPT-2's alphabet, which writes every byte as a printable character.
std::string in_byte_alphabet(std::string_view bytes);
// What a token stands for in a text. Throws nothing: the data were checked.
std::string bytes_of_token(const TokenizerData& data, std::int32_t id);

}  // namespace kvloupe::capture
