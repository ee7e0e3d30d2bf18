#include "app/widgets/meanings.h"

#include "core/base/error.h"

#include <array>

namespace kvloupe::widgets {
namespace {

using Shape = LegendItem::Shape;

struct Entry {
  Meaning meaning;
  const char* name;
  const char* sentence;
  ImU32 Palette::*color;
  Shape shape = Shape::Square;
};

constexpr std::array<Entry, 12> kEntries{{
    {Meaning::Kept, "kept", "The method keeps this key, and attention weighs it among the most.",
     &Palette::hit},
    {Meaning::Lost, "lost", "Attention weighs this key among the most, and it is not kept.",
     &Palette::miss},
    {Meaning::Waste, "waste", "It is kept in place of a key that attention weighs more.",
     &Palette::waste},
    {Meaning::Evicted, "evicted", "It was thrown away after an earlier chunk and cannot come back.",
     &Palette::evicted},
    {Meaning::ByRule, "kept by rule",
     "It is kept without a score: a first key (sink), a recent one, or one that its block brings.",
     &Palette::by_rule},
    {Meaning::AllKept, "all kept (dense)", "Here the method keeps every key.", &Palette::dense},
    {Meaning::NotKept, "not kept", "It could have been kept. Nothing says that it should be.",
     &Palette::dropped},
    {Meaning::Current, "current chunk", "Keys of the chunk itself, which no method leaves out.",
     &Palette::current},
    {Meaning::Watched, "watched", "The span that is watched, or where a key is evicted.",
     &Palette::text, Shape::Line},
    {Meaning::MethodA, "A", "Method A, wherever two methods are told apart.", &Palette::accent},
    {Meaning::MethodB, "B", "Method B.", &Palette::slot_b},
    {Meaning::BothKeep, "A and B", "Both methods keep it.", &Palette::both},
}};

const Entry& entry_of(Meaning meaning) {
  for (const Entry& entry : kEntries)
    if (entry.meaning == meaning) return entry;
  KVLOUPE_CHECK(false);
  return kEntries.front();
}

void row_ui(const Palette& palette, const LegendItem& item, const std::string& sentence) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  legend_ui(palette, {item});
  ImGui::TableNextColumn();
  text_wrapped(palette.text, sentence);
}

}  // namespace

const std::vector<Meaning>& all_meanings() {
  static const std::vector<Meaning> all = [] {
    std::vector<Meaning> meanings;
    for (const Entry& entry : kEntries) meanings.push_back(entry.meaning);
    return meanings;
  }();
  return all;
}

const char* name_of(Meaning meaning) { return entry_of(meaning).name; }
const char* sentence_of(Meaning meaning) { return entry_of(meaning).sentence; }

ImU32 color_of(const Palette& palette, Meaning meaning) { return palette.*entry_of(meaning).color; }

LegendItem legend_of(const Palette& palette, Meaning meaning, const std::string& words) {
  const Entry& entry = entry_of(meaning);
  return {words.empty() ? entry.name : words, palette.*entry.color, entry.shape};
}

void meanings_ui(const Palette& palette) {
  if (!ImGui::BeginTable("##meanings", 2)) return;
  ImGui::TableSetupColumn("mark", ImGuiTableColumnFlags_WidthFixed, em(11));
  ImGui::TableSetupColumn("sentence");
  for (const Meaning meaning : all_meanings())
    row_ui(palette, legend_of(palette, meaning), sentence_of(meaning));
  for (int i = 0; i < replay::kNumStages; ++i) {
    const auto stage = static_cast<replay::Stage>(i);
    if (stage == replay::Stage::Evicted) continue;
    row_ui(palette, {replay::words_of(stage), color_of(palette, stage)},
           i == 1 ? "What lost a key: the step of the method that left it out." : "");
  }
  ImGui::EndTable();
}

}  // namespace kvloupe::widgets
