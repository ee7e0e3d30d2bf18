// How Dear ImGui is compiled. The configuration of imgui-bundle widens ImDrawIdx to 32 bits, which ImPlot needs for large
// plots, and keeps assertions on in every build, but ends the program where one fails. Here it throws, so that the view
// that misused the library says so and the window goes on (app/shell/frame/frame_guard.h).
#pragma once

#include "imgui_bundle_config.h"

#include <stdexcept>

[[noreturn]] inline void kvloupe_imgui_failed(const char* what) { throw std::logic_error(what); }

#undef IM_ASSERT
#define IM_ASSERT(condition) \
  ((condition) ? (void)0 : kvloupe_imgui_failed("Dear ImGui: " #condition))
