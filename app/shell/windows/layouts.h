// The layouts that are saved by name: the menu, the dialog that asks for a name, and their files.
#pragma once

#include "app/shell/frame/panel_host.h"
#include "app/shell/saved/background_writer.h"
#include "app/shell/windows/file_dialog.h"
#include "app/shell/windows/messages.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

class Layouts {
 public:
  Layouts(state::Workspace& workspace, PanelHost& panels, WindowSteps& steps, FileDialog& files,
          Messages& messages);

  const std::vector<Layout>& all() const { return layouts_; }
  void ask_for_name();
  void import_from(const std::string& folder);  // asks which file
  void import_file(const std::string& file);
  void export_to(const std::string& folder);
  // Those saved, to be chosen and deleted, as a part of a menu.
  void list_ui();
  // The dialog, while it is open.
  void draw(const widgets::Palette& palette);
  void finish() { writer_.finish(); }  // all is on the disk

 private:
  void write_file(const std::string& file, const Layout& layout);
  void put(const Layout& layout);  // in the place of one of its name
  void remove(const std::string& name);
  const Layout* find(const std::string& name) const;

  state::Workspace& workspace_;
  PanelHost& panels_;
  WindowSteps& steps_;
  FileDialog& files_;
  Messages& messages_;
  std::vector<Layout> layouts_;  // by name
  bool opening_ = false;
  std::string name_, last_name_;
  std::vector<std::string> unread_;  // why files are no layouts, to be told
  BackgroundWriter writer_;
};

}  // namespace kvloupe::shell
