// A formula in the LaTeX of papers, set in the font of the text around it: letters, Greek, scripts,
// fractions, roots, bars and hats, sums, named functions.
#pragma once

#include <imgui.h>

#include <string>
#include <vector>

namespace kvloupe::widgets {

class Formula {
 public:
  // At the current font and size. What is not understood stands as it was written.
  explicit Formula(const std::string& latex);

  ImVec2 size() const { return {box_.width, box_.ascent + box_.descent}; }
  float ascent() const { return box_.ascent; }
  // From the left end of the line that its letters stand on.
  void draw(ImDrawList* draw, ImVec2 baseline, ImU32 color) const;

  // Parts at places from the left end of the base line; down is positive.
  struct Glyphs {
    ImVec2 at;
    float size = 0;
    std::string text;
  };
  struct Line {
    std::vector<ImVec2> points;
    float thickness = 0;
  };
  struct Box {
    float width = 0, ascent = 0, descent = 0;
    std::vector<Glyphs> glyphs;
    std::vector<Line> lines;

    // Beside what is there.
    void append(const Box& other, float down = 0);
    void place(const Box& other, float x, float down);
  };

 private:
  Box box_;
};

// The first command that is not understood, or what else is wrong with it; empty: nothing.
std::string problem_of_formula(const std::string& latex);

}  // namespace kvloupe::widgets
