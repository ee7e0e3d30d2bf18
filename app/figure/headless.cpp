// See headless.h.
#include "app/figure/headless.h"

#include "core/base/error.h"

#include <epoxy/egl.h>
#include <epoxy/gl.h>
#include <fmt/format.h>
#include <imgui_impl_opengl3.h>

#include <cmath>
#include <cstring>

namespace kvloupe::figure {
namespace {

Error no_opengl(const std::string& why) {
  return input_error("the view cannot be drawn", why,
                     "install Mesa's EGL (libegl-mesa0, libgl1-mesa-dri) or a graphics driver");
}

EGLDisplay open_display() {
  // With a surfaceless platform no display server and no device file is needed.
  if (epoxy_has_egl_extension(EGL_NO_DISPLAY, "EGL_MESA_platform_surfaceless")) {
    const EGLDisplay display =
        eglGetPlatformDisplayEXT(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
    if (display != EGL_NO_DISPLAY && eglInitialize(display, nullptr, nullptr)) return display;
  }
  const EGLDisplay display = eglGetDisplay(EGL_DEFAULT_DISPLAY);
  if (display == EGL_NO_DISPLAY || !eglInitialize(display, nullptr, nullptr))
    throw no_opengl("EGL offers no display that works without a screen");
  return display;
}

}  // namespace

struct HeadlessRenderer::Impl {
  EGLDisplay display = EGL_NO_DISPLAY;
  EGLContext context = EGL_NO_CONTEXT;
  int width = 0, height = 0;              // logical
  int pixel_width = 0, pixel_height = 0;  // of the framebuffer
  float scale = 1;
  GLuint framebuffer = 0, color = 0;
  GLint limit = 0;  // pixels a side
  std::unique_ptr<GuiContext> gui;
  bool backend = false;

  ~Impl() {
    if (backend) {
      ImGui::SetCurrentContext(gui->imgui());
      ImGui_ImplOpenGL3_Shutdown();
    }
    gui.reset();
    if (context != EGL_NO_CONTEXT) {
      if (framebuffer != 0) glDeleteFramebuffers(1, &framebuffer);
      if (color != 0) glDeleteTextures(1, &color);
      eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
      eglDestroyContext(display, context);
    }
    if (display != EGL_NO_DISPLAY) eglTerminate(display);
  }

  void make_context() {
    display = open_display();
    if (!eglBindAPI(EGL_OPENGL_API)) throw no_opengl("EGL offers no desktop OpenGL");
    const EGLint config_attributes[] = {EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_NONE};
    EGLConfig config = nullptr;
    EGLint count = 0;
    eglChooseConfig(display, config_attributes, &config, 1, &count);
    const EGLint context_attributes[] = {EGL_CONTEXT_MAJOR_VERSION,
                                         3,
                                         EGL_CONTEXT_MINOR_VERSION,
                                         3,
                                         EGL_CONTEXT_OPENGL_PROFILE_MASK,
                                         EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT,
                                         EGL_NONE};
    context = eglCreateContext(display, count > 0 ? config : EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT,
                               context_attributes);
    if (context == EGL_NO_CONTEXT) throw no_opengl("no OpenGL 3.3 context could be made");
    if (!eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context))
      throw no_opengl("the OpenGL context could not be made current");
  }

  void make_framebuffer() {
    glGetIntegerv(GL_MAX_TEXTURE_SIZE, &limit);
    if (pixel_width > limit || pixel_height > limit)
      throw input_error(
          fmt::format("an image of {} x {} pixels cannot be drawn", pixel_width, pixel_height),
          fmt::format("this machine's OpenGL draws at most {} a side", limit),
          "choose a smaller --size or --scale");
    glGenTextures(1, &color);
    glBindTexture(GL_TEXTURE_2D, color);
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, pixel_width, pixel_height, 0, GL_RGBA,
                 GL_UNSIGNED_BYTE, nullptr);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    glGenFramebuffers(1, &framebuffer);
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
    glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, color, 0);
    if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE)
      throw no_opengl("the framebuffer is incomplete");
  }
};

HeadlessRenderer::HeadlessRenderer(int width, int height, float scale, const std::string& font)
    : impl_(std::make_unique<Impl>()) {
  impl_->width = width;
  impl_->height = height;
  impl_->scale = scale;
  impl_->pixel_width = static_cast<int>(std::lround(width * scale));
  impl_->pixel_height = static_cast<int>(std::lround(height * scale));
  impl_->make_context();
  impl_->make_framebuffer();
  impl_->gui = std::make_unique<GuiContext>(font);
  impl_->backend = ImGui_ImplOpenGL3_Init("#version 330 core");
  if (!impl_->backend) throw no_opengl("the renderer could not be started");
}

HeadlessRenderer::~HeadlessRenderer() = default;

GuiContext& HeadlessRenderer::gui() { return *impl_->gui; }

int HeadlessRenderer::most_height() const {
  return static_cast<int>(static_cast<float>(impl_->limit) / impl_->scale);
}

void HeadlessRenderer::frame(const std::function<void()>& draw) {
  ImGui::SetCurrentContext(impl_->gui->imgui());
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(impl_->width), static_cast<float>(impl_->height)};
  io.DisplayFramebufferScale = {impl_->scale, impl_->scale};
  io.DeltaTime = 1.0F / 60.0F;
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
  draw();
  ImGui::Render();
  glBindFramebuffer(GL_FRAMEBUFFER, impl_->framebuffer);
  glViewport(0, 0, impl_->pixel_width, impl_->pixel_height);
  const ImVec4 back = widgets::to_vec4(impl_->gui->palette().panel);
  glClearColor(back.x, back.y, back.z, 1.0F);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

Image framebuffer_image(int width, int height) {
  Image image{width, height, {}};
  const std::size_t stride = static_cast<std::size_t>(width) * 4;
  std::vector<std::uint8_t> upside_down(stride * static_cast<std::size_t>(height));
  image.rgba.resize(upside_down.size());
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE, upside_down.data());
  for (int row = 0; row < height; ++row)
    std::memcpy(image.rgba.data() + stride * static_cast<std::size_t>(row),
                upside_down.data() + stride * static_cast<std::size_t>(height - 1 - row), stride);
  for (std::size_t i = 3; i < image.rgba.size(); i += 4) image.rgba[i] = 255;
  return image;
}

Image HeadlessRenderer::read() const {
  glBindFramebuffer(GL_FRAMEBUFFER, impl_->framebuffer);
  return framebuffer_image(impl_->pixel_width, impl_->pixel_height);
}

Image HeadlessRenderer::texture(ImTextureID id) const {
  glBindTexture(GL_TEXTURE_2D, static_cast<GLuint>(id));
  GLint width = 0, height = 0;
  glGetTexLevelParameteriv(GL_TEXTURE_2D, 0, GL_TEXTURE_WIDTH, &width);
  glGetTexLevelParameteriv(GL_TEXTURE_2D, 0, GL_TEXTURE_HEIGHT, &height);
  Image image{width, height, {}};
  image.rgba.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 4);
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glGetTexImage(GL_TEXTURE_2D, 0, GL_RGBA, GL_UNSIGNED_BYTE, image.rgba.data());
  return image;
}

}  // namespace kvloupe::figure
