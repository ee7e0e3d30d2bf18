#include "app/shell/windows/desktop_dialog.h"

#include <portable_file_dialogs.h>

#include <cstdlib>
#include <future>
#include <sstream>

#include <unistd.h>

namespace kvloupe::shell {

struct DesktopDialog::Program {
  std::unique_ptr<pfd::open_file> opens;
  std::unique_ptr<pfd::save_file> saves;
};

namespace {

// Without a copy of this process, which the library makes for each name: where PATH has none of them, it need not be
// asked.
bool is_on_path() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"zenity", "matedialog", "qarma", "kdialog"})
      if (::access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) return true;
  return false;
}

const std::shared_future<bool>& found() {
  static const std::shared_future<bool> future =
      std::async(std::launch::async, [] { return is_on_path() && pfd::settings::available(); });
  return future;
}

}  // namespace

void DesktopDialog::look_for() { found(); }

bool DesktopDialog::is_there() { return found().get(); }

DesktopDialog::DesktopDialog(bool saves, const std::string& title,
                             const std::filesystem::path& start,
                             const std::vector<std::string>& filters)
    : program_(std::make_unique<Program>()) {
  if (saves)
    program_->saves =
        std::make_unique<pfd::save_file>(title, start.string(), filters, pfd::opt::force_overwrite);
  else
    program_->opens = std::make_unique<pfd::open_file>(title, start.string(), filters);
}

DesktopDialog::~DesktopDialog() {
  // Else the library waits for the person.
  if (program_->saves && !program_->saves->ready(0)) program_->saves->kill();
  if (program_->opens && !program_->opens->ready(0)) program_->opens->kill();
}

std::optional<std::string> DesktopDialog::poll() {
  if (program_->saves)
    return program_->saves->ready(0) ? std::optional(program_->saves->result()) : std::nullopt;
  if (!program_->opens->ready(0)) return std::nullopt;
  const std::vector<std::string> chosen = program_->opens->result();
  return chosen.empty() ? std::string() : chosen.front();
}

}  // namespace kvloupe::shell
