// See app_window.h.
#include "app/shell/frame/app_window.h"

#include "app/figure/headless.h"
#include "app/shell/frame/display_watch.h"
#include "app/shell/frame/pace.h"
#include "app/shell/saved/session_saver.h"
#include "core/base/error.h"
#include "core/base/large_blocks.h"

#include <epoxy/gl.h>

#include <GLFW/glfw3.h>
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace kvloupe::shell {
namespace {

// Frames that follow an input at full speed, so that hovering and layout settle.
constexpr int kFramesAfterInput = 4;
constexpr double kIdleSeconds = 0.5;
constexpr double kTimingSeconds = 0.2;  // five frames a second while latency is measured

std::string last_glfw_error() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text != nullptr ? text : "the window system gave no reason";
}

// KVLOUPE_SCALE overrides what the display says.
float content_scale_of(GLFWwindow* window) {
  if (const char* text = std::getenv("KVLOUPE_SCALE")) {
    const float scale = std::strtof(text, nullptr);
    if (scale >= 0.5F && scale <= 4.0F) return scale;
  }
  float x = 1, y = 1;
  glfwGetWindowContentScale(window, &x, &y);
  // Where the framebuffer is larger than the window (Wayland, macOS), ImGui already draws denser.
  int window_width = 0, framebuffer_width = 0, ignored = 0;
  glfwGetWindowSize(window, &window_width, &ignored);
  glfwGetFramebufferSize(window, &framebuffer_width, &ignored);
  if (window_width > 0)
    x *= static_cast<float>(window_width) / static_cast<float>(std::max(1, framebuffer_width));
  return std::clamp(x, 0.5F, 4.0F);
}

}  // namespace

struct AppWindow::Impl {
  Options options;
  GLFWwindow* window = nullptr;
  std::unique_ptr<figure::GuiContext> gui;
  std::unique_ptr<state::Workspace> workspace;
  std::unique_ptr<Explorer> explorer;
  std::unique_ptr<SessionSaver> saver;  // null: nothing is remembered
  std::optional<DisplayWatch> display;
  bool backends = false;
  int lively = 10;  // frames to draw before idling
  struct {
    int x, y, width, height;
  } place{};  // of the window before it had the screen

  void follow_presenter();
  void draw_other_windows();

  ~Impl() {
    if (gui) ImGui::SetCurrentContext(gui->imgui());
    saver.reset();
    if (workspace) workspace->answers.jobs().set_wake(nullptr);
    explorer.reset();
    workspace.reset();
    if (backends) {
      ImGui_ImplOpenGL3_Shutdown();
      ImGui_ImplGlfw_Shutdown();
    }
    gui.reset();
    if (window != nullptr) glfwDestroyWindow(window);
    glfwTerminate();
  }

  // No window manager need be there to cut a window to the screen: it is made no larger than the largest one.
  std::pair<int, int> size_on_screen() const {
    int count = 0, width = 0, height = 0;
    GLFWmonitor** monitors = glfwGetMonitors(&count);
    for (int i = 0; i < count; ++i) {
      int x = 0, y = 0, across = 0, down = 0;
      glfwGetMonitorWorkarea(monitors[i], &x, &y, &across, &down);
      width = std::max(width, across);
      height = std::max(height, down);
    }
    const Settings& wanted = options.settings;
    return {width > 0 ? std::min(width, wanted.window_width) : wanted.window_width,
            height > 0 ? std::min(height, wanted.window_height) : wanted.window_height};
  }

  void make_window() {
    if (glfwInit() != GLFW_TRUE)
      throw input_error(
          "the window cannot be opened", last_glfw_error(),
          "start it in a desktop session, or use kvloupe export, which needs no display");
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
    // Nothing is drawn by depth.
    glfwWindowHint(GLFW_DEPTH_BITS, 0);
    glfwWindowHint(GLFW_STENCIL_BITS, 0);
    glfwWindowHintString(GLFW_X11_CLASS_NAME, "kvloupe");
    glfwWindowHintString(GLFW_X11_INSTANCE_NAME, "kvloupe");
    glfwWindowHint(GLFW_CONTEXT_ROBUSTNESS, GLFW_LOSE_CONTEXT_ON_RESET);
    // The audience goes on seeing what is presented while the speaker works in another window.
    glfwWindowHint(GLFW_AUTO_ICONIFY, GLFW_FALSE);
    const auto [width, height] = size_on_screen();
    window = glfwCreateWindow(width, height, "KVLoupe", nullptr, nullptr);
    if (window == nullptr)
      throw input_error("the window cannot be opened", last_glfw_error(),
                        "a driver with OpenGL 3.3 is needed; Mesa's software renderer will do");
    glfwMakeContextCurrent(window);
    glfwSwapInterval(options.vsync ? 1 : 0);
    glfwSetWindowUserPointer(window, this);
    glfwSetDropCallback(window, [](GLFWwindow* target, int count, const char** paths) {
      auto* self = static_cast<Impl*>(glfwGetWindowUserPointer(target));
      self->explorer->take_dropped({paths, paths + count});
    });
  }
};

// Has the screen that most of it lies on while something is presented, and then its own place again.
void AppWindow::Impl::follow_presenter() {
  if (explorer->presenting() == (glfwGetWindowMonitor(window) != nullptr)) return;
  if (!explorer->presenting()) {
    glfwSetWindowMonitor(window, nullptr, place.x, place.y, place.width, place.height,
                         GLFW_DONT_CARE);
    return;
  }
  glfwGetWindowPos(window, &place.x, &place.y);
  glfwGetWindowSize(window, &place.width, &place.height);
  int count = 0;
  GLFWmonitor** monitors = glfwGetMonitors(&count);
  GLFWmonitor* most = glfwGetPrimaryMonitor();
  for (int i = 0, best = 0; i < count; ++i) {
    int x = 0, y = 0;
    glfwGetMonitorPos(monitors[i], &x, &y);
    const GLFWvidmode* mode = glfwGetVideoMode(monitors[i]);
    const int across = std::min(x + mode->width, place.x + place.width) - std::max(x, place.x);
    const int down = std::min(y + mode->height, place.y + place.height) - std::max(y, place.y);
    if (const int shared = std::max(across, 0) * std::max(down, 0); shared > best) {
      best = shared;
      most = monitors[i];
    }
  }
  if (most == nullptr) return;
  const GLFWvidmode* mode = glfwGetVideoMode(most);
  glfwSetWindowMonitor(window, most, 0, 0, mode->width, mode->height, mode->refreshRate);
}

// The speaker's, while something is presented.
void AppWindow::Impl::draw_other_windows() {
  ImGui::UpdatePlatformWindows();  // in every frame: ImGui asks for it before the first of them
  if ((ImGui::GetIO().ConfigFlags & ImGuiConfigFlags_ViewportsEnable) == 0) return;
  ImGui::RenderPlatformWindowsDefault();
  glfwMakeContextCurrent(window);
}

AppWindow::AppWindow(Options options) : impl_(std::make_unique<Impl>()) {
  give_back_large_blocks();
  impl_->options = std::move(options);
  impl_->display.emplace([impl = impl_.get()] {
    if (impl->saver) impl->saver->save_now();
  });
  impl_->make_window();
  impl_->gui = std::make_unique<figure::GuiContext>();
  impl_->workspace =
      std::make_unique<state::Workspace>(impl_->options.window.memory, impl_->options.opener);
  if (impl_->options.window.start_engine)
    impl_->workspace->answers.start_engine = impl_->options.window.start_engine;
  impl_->options.settings.restore_places &= impl_->options.remember;
  impl_->explorer =
      std::make_unique<Explorer>(*impl_->workspace, *impl_->gui, impl_->options.settings);
  ImGui_ImplGlfw_InitForOpenGL(impl_->window, true);
  impl_->backends = ImGui_ImplOpenGL3_Init("#version 330 core");
  if (impl_->options.remember) {
    const std::string layout = load_layout();
    if (!layout.empty()) ImGui::LoadIniSettingsFromMemory(layout.data(), layout.size());
  }
  impl_->workspace->answers.jobs().set_wake([] { glfwPostEmptyEvent(); });
  std::vector<std::string> traces = impl_->options.window.traces;
  const std::string& tour = impl_->options.window.tour;
  if (!tour.empty()) traces.push_back(state::load_tour(tour).trace.string());
  const std::optional<state::ViewState>& at = impl_->options.window.at;
  if (impl_->options.remember)
    impl_->saver = std::make_unique<SessionSaver>(*impl_->workspace, *impl_->explorer, traces, at);
  else
    for (const std::string& path : traces) impl_->workspace->traces.open(path, at);
  if (at && !at->view.empty()) impl_->explorer->panels().show(at->view);
  if (!tour.empty()) impl_->explorer->tour().open(tour);
}

AppWindow::~AppWindow() = default;

state::Workspace& AppWindow::workspace() { return *impl_->workspace; }
Explorer& AppWindow::explorer() { return *impl_->explorer; }
figure::GuiContext& AppWindow::gui() { return *impl_->gui; }

bool AppWindow::frame() {
  glfwPollEvents();
  impl_->follow_presenter();
  int width = 0, height = 0;
  glfwGetWindowSize(impl_->window, &width, &height);
  if (width > 0 && height > 0 && !impl_->explorer->presenting())
    impl_->explorer->set_window_size(width, height);
  impl_->explorer->set_content_scale(content_scale_of(impl_->window));
  impl_->explorer->before_frame();
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  ImGui::NewFrame();
  if (ImGui::GetIO().MouseDelta.x != 0 || ImGui::GetIO().MouseDelta.y != 0 ||
      ImGui::IsAnyMouseDown() || ImGui::GetIO().MouseWheel != 0)
    impl_->lively = kFramesAfterInput;
  impl_->explorer->frame();
  ImGui::Render();
  if (after_render || ImGui::GetFrameCount() % shown_of == 0) show_frame();
  impl_->draw_other_windows();
  require_graphics();
  if (impl_->saver) impl_->saver->tick();
  if (glfwWindowShouldClose(impl_->window) == GLFW_TRUE) {
    glfwSetWindowShouldClose(impl_->window, GLFW_FALSE);
    impl_->explorer->ask_to_quit();
    impl_->lively = kFramesAfterInput;
  }
  const bool closed = impl_->explorer->wants_quit();
  if (closed && impl_->saver) impl_->saver->end();
  return !closed;
}

void AppWindow::show_frame() {
  int width = 0, height = 0;
  glfwGetFramebufferSize(impl_->window, &width, &height);
  glViewport(0, 0, width, height);
  const ImVec4 back = widgets::to_vec4(impl_->gui->palette().panel);
  glClearColor(back.x, back.y, back.z, 1.0F);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  if (after_render) after_render();
  glfwSwapBuffers(impl_->window);
}

void AppWindow::wait() {
  if (impl_->workspace->answers.measuring()) {
    glfwWaitEventsTimeout(kTimingSeconds);
    return;
  }
  if (impl_->lively > 0) {
    --impl_->lively;
    return;
  }
  if (impl_->explorer->animating()) {
    glfwWaitEventsTimeout(kAnimationSeconds);
    return;
  }
  glfwWaitEventsTimeout(kIdleSeconds);
  impl_->lively = kFramesAfterInput;
}

figure::Image AppWindow::read_pixels() {
  int width = 0, height = 0;
  glfwGetFramebufferSize(impl_->window, &width, &height);
  return figure::framebuffer_image(width, height);
}

}  // namespace kvloupe::shell
