// The column of a tour, left of the workspace: one page, what to try, and whether it is done. The window
// beside it is the live one, as the page asks for it.
#pragma once

#include "app/shell/frame/panel_host.h"
#include "app/shell/methods/method_knobs.h"
#include "app/shell/windows/messages.h"
#include "app/state/tour.h"
#include "app/state/workspace.h"
#include "app/widgets/markdown.h"
#include "app/widgets/palette.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

namespace kvloupe::shell {

class TourColumn {
 public:
  TourColumn(state::Workspace& workspace, PanelHost& panels, Messages& messages)
      : workspace_(workspace), panels_(panels), messages_(messages) {}

  // Shows its first page; what cannot be read is told.
  void open(const std::filesystem::path& file);
  void close() { tour_.reset(); }
  bool is_open() const { return tour_.has_value(); }
  void go(std::size_t page);
  void step(int by);
  std::size_t page() const { return page_; }
  bool is_done(std::size_t page) const { return done_.count(page) > 0; }
  const std::optional<state::Tour>& tour() const { return tour_; }

  // Once a frame: reads a file that was saved, and sees whether the page is done.
  void tick();
  void draw(const widgets::Palette& palette);

 private:
  bool read(const std::filesystem::path& file);
  bool on_its_trace() const;
  void set_page();
  void show_page();
  void head_ui(const widgets::Palette& palette);
  void page_ui(const widgets::Palette& palette);
  // What is to be done, with its controls, and what comes of it: in view whatever is scrolled.
  void hand_ui(const widgets::Palette& palette, float most);
  void try_ui(const widgets::Palette& palette, const state::TourPage& now);
  static void part_ui(const widgets::Palette& palette, const char* word,
                      const std::vector<widgets::MarkdownBlock>& blocks);
  void foot_ui(const widgets::Palette& palette);

  state::Workspace& workspace_;
  PanelHost& panels_;
  Messages& messages_;
  std::optional<state::Tour> tour_;
  std::size_t page_ = 0;
  bool wanted_ = false;  // the page is not shown yet
  bool shown_ = false;   // it was, as it asks for
  std::set<std::size_t> done_;
  std::vector<widgets::MarkdownBlock> body_, to_try_, to_see_;
  bool tells_ = false;  // what is to be seen, before the page is done
  float below_ = 0;     // the page: the height of all that stands there, in the last frame
  std::filesystem::file_time_type saved_;
  std::chrono::steady_clock::time_point looked_;
  MethodKnobs knobs_;
};

}  // namespace kvloupe::shell
