// See window.h.
#include "app/shell/window.h"

#include "app/shell/app_window.h"
#include "core/base/cancel.h"

namespace kvloupe::shell {

int run_window(const WindowOptions& options) {
  AppWindow::Options window;
  window.window = options;
  window.window.traces.clear();
  window.settings = load_settings();
  AppWindow app(std::move(window));
  const CancelToken interrupted = interrupt_token();
  // The window is up before Torch is: a frame of an empty workspace computes nothing.
  if (!app.frame()) return 0;
  options.start_engine();
  for (const std::string& path : options.traces) app.workspace().traces.open(path);
  while (app.frame() && !interrupted.cancelled()) app.wait();
  interrupted.throw_if_cancelled();
  return 0;
}

}  // namespace kvloupe::shell
