// See window.h.
#include "app/shell/frame/window.h"

#include "app/shell/frame/app_window.h"
#include "core/base/cancel.h"
#include "core/base/error.h"

namespace kvloupe::shell {

int run_window(const WindowOptions& options) {
  const CancelToken interrupted = interrupt_token();
  AppWindow::Options window;
  window.window = options;
  window.settings = load_settings();
  window.opener = state::opener_with({.bases = options.bases});
  AppWindow app(std::move(window));
  while (app.frame() && !interrupted.cancelled()) app.wait();
  if (interrupted.cancelled())
    throw Error(ErrorKind::Cancelled, "the window was closed", "a signal asked for it",
                "start it again, it goes on where you were");
  return 0;
}

}  // namespace kvloupe::shell
