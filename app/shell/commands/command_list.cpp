// See command_list.h.
#include "app/shell/commands/command_list.h"

#include "app/shell/commands/key_choices.h"
#include "core/base/letters.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace kvloupe::shell {

namespace {

// Like ImGui::IsKeyChordPressed, with key repeat: a held arrow scrubs.
bool chord_pressed(ImGuiKeyChord chord) {
  return (chord & ImGuiMod_Mask_) == ImGui::GetIO().KeyMods &&
         ImGui::IsKeyPressed(static_cast<ImGuiKey>(chord & ~ImGuiMod_Mask_), true);
}

}  // namespace

std::string shortcut_text(const Command& command) {
  return command.keys.empty() ? std::string() : text_of(command.keys.front());
}

void handle_shortcuts(const std::vector<Command>& commands) {
  const bool typing = ImGui::GetIO().WantTextInput;
  for (const Command& command : commands)
    for (const ImGuiKeyChord chord : command.keys) {
      const bool modified = (chord & (ImGuiMod_Ctrl | ImGuiMod_Alt)) != 0;
      if (typing && !modified && !command.while_typing) continue;
      if (chord_pressed(chord) && command.is_enabled()) {
        command.run();
        return;
      }
    }
}

int match_score(const std::string& query, const std::string& text) {
  constexpr int kInside = 1, kBegins = 3, kWhole = 5;
  const std::string whole = lower_case(text);
  const auto letter = [&](std::size_t i) {
    return i < whole.size() && std::isalnum(static_cast<unsigned char>(whole[i])) != 0;
  };
  int score = 0;
  std::istringstream words(lower_case(query));
  for (std::string word; words >> word;) {
    int best = -1;
    for (std::size_t at = whole.find(word); at != std::string::npos;
         at = whole.find(word, at + 1)) {
      const bool begins = at == 0 || !letter(at - 1);
      best = std::max(best, !begins ? kInside : letter(at + word.size()) ? kBegins : kWhole);
    }
    if (best < 0) return -1;
    score += best;
  }
  return score;
}

std::vector<std::size_t> matching(const std::string& query, const std::vector<Command>& commands) {
  constexpr int kOfTitle = 1000;
  std::vector<std::pair<int, std::size_t>> found;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const int title = match_score(query, commands[i].title);
    const int score = title >= 0 ? kOfTitle + title
                                 : match_score(query, commands[i].title + " " + commands[i].id);
    if (score >= 0 && commands[i].is_enabled()) found.emplace_back(score, i);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::size_t> indices;
  for (const auto& [score, index] : found) indices.push_back(index);
  return indices;
}

}  // namespace kvloupe::shell
