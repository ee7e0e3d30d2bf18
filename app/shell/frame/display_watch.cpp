#include "app/shell/frame/display_watch.h"

#include "core/base/error.h"
#include "core/base/log.h"

#include <epoxy/gl.h>

#include <X11/Xlib.h>
#include <unistd.h>

#include <exception>
#include <thread>
#include <utility>

namespace kvloupe::shell {
namespace {

struct Watch {
  std::function<void()> save;
  std::thread::id owner;
};
Watch* watch = nullptr;

constexpr const char* kRemedy = "start the program again, it goes on where you were";

int on_lost(Display*) {
  // Drivers use the connection in threads of their own, which must not touch what is drawn; what was
  // saved some seconds ago has to do then.
  if (watch != nullptr && watch->save && watch->owner == std::this_thread::get_id()) {
    try {
      std::exchange(watch->save, nullptr)();
    } catch (const std::exception& thrown) {
      log::warning("the session was not saved: {}", thrown.what());
    }
  }
  const Error error =
      input_error("the window is gone", "its display has ended or closed the connection", kRemedy);
  log::write(log::Level::Error, error.what());
  ::_exit(error.exit_code());
}

// A request that the server refused. Xlib would end the program for it.
int on_refused(Display* display, XErrorEvent* event) {
  char text[256] = "";
  XGetErrorText(display, event->error_code, text, sizeof text);
  log::warning("the display refused request {}: {}", event->request_code, text);
  return 0;
}

}  // namespace

DisplayWatch::DisplayWatch(std::function<void()> save) {
  watch = new Watch{std::move(save), std::this_thread::get_id()};
  XSetIOErrorHandler(on_lost);
  XSetErrorHandler(on_refused);
}

DisplayWatch::~DisplayWatch() {
  // The handlers stay: the display may go while the window is closed, and the sentence is right then.
  delete std::exchange(watch, nullptr);
}

void require_graphics() {
  static const bool told_of_resets = epoxy_has_gl_extension("GL_ARB_robustness");
  if (!told_of_resets || glGetGraphicsResetStatusARB() == GL_NO_ERROR) return;
  throw input_error("the window cannot be drawn any more",
                    "the graphics driver was reset and lost its contents", kRemedy);
}

}  // namespace kvloupe::shell
