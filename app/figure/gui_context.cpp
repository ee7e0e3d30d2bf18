// See gui_context.h.
#include "app/figure/gui_context.h"

#include <implot/implot.h>
#include <implot3d/implot3d.h>

namespace kvloupe::figure {
namespace {

using widgets::to_vec4;
using widgets::with_alpha;

// Distances on the grid of 8 pixels, halved where things belong together (widgets::grid).
void set_sizes(ImGuiStyle& style) {
  style.WindowPadding = {12, 8};
  style.FramePadding = {8, 4};
  style.CellPadding = {8, 3};
  style.ItemSpacing = {8, 8};
  style.ItemInnerSpacing = {4, 4};
  style.IndentSpacing = 16;
  style.ScrollbarSize = 12;
  style.GrabMinSize = 12;
  style.WindowRounding = 8;
  style.ChildRounding = 6;
  style.FrameRounding = 5;
  style.PopupRounding = 8;
  style.ScrollbarRounding = 6;
  style.GrabRounding = 5;
  style.TabRounding = 5;
  style.WindowBorderSize = 1;
  style.ChildBorderSize = 0;
  style.PopupBorderSize = 1;
  style.FrameBorderSize = 0;
  style.TabBorderSize = 0;
  style.TabBarBorderSize = 1;
  style.DockingSeparatorSize = 3;
  style.WindowMenuButtonPosition = ImGuiDir_None;
  style.SeparatorTextBorderSize = 1;
}

void set_colors(ImGuiStyle& style, const widgets::Palette& p) {
  if (p.kind == widgets::ThemeKind::Dark)
    ImGui::StyleColorsDark(&style);
  else
    ImGui::StyleColorsLight(&style);
  const auto set = [&](ImGuiCol index, ImU32 color) { style.Colors[index] = to_vec4(color); };
  const ImU32 hovered = widgets::mix(p.raised, p.accent, 0.18);
  const ImU32 active = widgets::mix(p.raised, p.accent, 0.32);
  set(ImGuiCol_Text, p.text);
  set(ImGuiCol_TextDisabled, p.muted);
  set(ImGuiCol_WindowBg, p.panel);
  set(ImGuiCol_ChildBg, with_alpha(p.panel, 0));
  set(ImGuiCol_PopupBg, p.panel);
  set(ImGuiCol_Border, p.line);
  set(ImGuiCol_FrameBg, p.raised);
  set(ImGuiCol_FrameBgHovered, hovered);
  set(ImGuiCol_FrameBgActive, active);
  set(ImGuiCol_TitleBg, p.window);
  set(ImGuiCol_TitleBgActive, p.window);
  set(ImGuiCol_TitleBgCollapsed, p.window);
  set(ImGuiCol_MenuBarBg, p.window);
  set(ImGuiCol_ScrollbarBg, with_alpha(p.panel, 0));
  set(ImGuiCol_ScrollbarGrab, p.line);
  set(ImGuiCol_ScrollbarGrabHovered, p.faint);
  set(ImGuiCol_ScrollbarGrabActive, p.muted);
  set(ImGuiCol_CheckMark, p.accent);
  // A slider's number stands over its knob.
  set(ImGuiCol_SliderGrab, widgets::mix(p.raised, p.accent, 0.5));
  set(ImGuiCol_SliderGrabActive, widgets::mix(p.raised, p.accent, 0.65));
  set(ImGuiCol_Button, p.raised);
  set(ImGuiCol_ButtonHovered, hovered);
  set(ImGuiCol_ButtonActive, active);
  set(ImGuiCol_Header, widgets::mix(p.panel, p.accent, 0.22));
  set(ImGuiCol_HeaderHovered, widgets::mix(p.panel, p.accent, 0.16));
  set(ImGuiCol_HeaderActive, widgets::mix(p.panel, p.accent, 0.3));
  set(ImGuiCol_Separator, p.line);
  set(ImGuiCol_SeparatorHovered, p.accent);
  set(ImGuiCol_SeparatorActive, p.accent);
  set(ImGuiCol_ResizeGrip, with_alpha(p.line, 0.5F));
  set(ImGuiCol_Tab, p.window);
  set(ImGuiCol_TabHovered, hovered);
  set(ImGuiCol_TabSelected, p.panel);
  set(ImGuiCol_TabSelectedOverline, p.accent);
  set(ImGuiCol_TabDimmed, p.window);
  set(ImGuiCol_TabDimmedSelected, p.panel);
  set(ImGuiCol_TabDimmedSelectedOverline, p.line);
  set(ImGuiCol_DockingPreview, with_alpha(p.accent, 0.5F));
  set(ImGuiCol_DockingEmptyBg, with_alpha(p.window, 0));
  set(ImGuiCol_TableHeaderBg, p.raised);
  set(ImGuiCol_TableBorderStrong, p.line);
  set(ImGuiCol_TableBorderLight, p.grid);
  set(ImGuiCol_TableRowBg, with_alpha(p.panel, 0));
  set(ImGuiCol_TableRowBgAlt, with_alpha(p.raised, 0.5F));
  set(ImGuiCol_TextSelectedBg, with_alpha(p.accent, 0.35F));
  set(ImGuiCol_NavCursor, p.accent);
  set(ImGuiCol_ModalWindowDimBg, with_alpha(IM_COL32(0, 0, 0, 255), 0.45F));
}

void set_plot_styles(const widgets::Palette& p, float scale) {
  ImPlotStyle& flat = ImPlot::GetStyle();
  ImPlot3DStyle& solid = ImPlot3D::GetStyle();
  flat = ImPlotStyle();
  solid = ImPlot3DStyle();
  ImPlot::StyleColorsAuto(&flat);
  ImPlot3D::StyleColorsAuto(&solid);
  const auto set_flat = [&](ImPlotCol index, ImU32 color) { flat.Colors[index] = to_vec4(color); };
  const auto set = [&](ImPlotCol index, ImPlot3DCol solid_index, ImU32 color) {
    set_flat(index, color);
    solid.Colors[solid_index] = to_vec4(color);
  };
  set(ImPlotCol_FrameBg, ImPlot3DCol_FrameBg, with_alpha(p.panel, 0));
  // The frame is cleared to the panel's colour; a software renderer pays for every layer above it.
  set(ImPlotCol_PlotBg, ImPlot3DCol_PlotBg, with_alpha(p.panel, 0));
  set(ImPlotCol_PlotBorder, ImPlot3DCol_PlotBorder, p.line);
  set(ImPlotCol_TitleText, ImPlot3DCol_TitleText, p.text);
  set(ImPlotCol_InlayText, ImPlot3DCol_InlayText, p.text);
  set(ImPlotCol_AxisText, ImPlot3DCol_AxisText, p.muted);
  set(ImPlotCol_AxisGrid, ImPlot3DCol_AxisGrid, p.grid);
  // Lines at numbers must look alike, though some count as minor ticks: a stronger one is read as a mark.
  ImPlot::GetStyle().MinorAlpha = 0.6F;
  set(ImPlotCol_AxisTick, ImPlot3DCol_AxisTick, p.line);
  set(ImPlotCol_AxisBg, ImPlot3DCol_AxisBg, with_alpha(p.panel, 0));
  set(ImPlotCol_AxisBgHovered, ImPlot3DCol_AxisBgHovered, with_alpha(p.accent, 0.12F));
  set(ImPlotCol_AxisBgActive, ImPlot3DCol_AxisBgActive, with_alpha(p.accent, 0.2F));
  set_flat(ImPlotCol_LegendBg, with_alpha(p.panel, 0.92F));
  set_flat(ImPlotCol_LegendBorder, p.line);
  set_flat(ImPlotCol_LegendText, p.text);
  set_flat(ImPlotCol_Selection, p.accent);
  set_flat(ImPlotCol_Crosshairs, p.muted);
  const auto scaled = [scale](float x, float y) { return ImVec2(x * scale, y * scale); };
  flat.PlotPadding = solid.PlotPadding = scaled(4, 6);
  flat.LabelPadding = solid.LabelPadding = scaled(6, 5);
  flat.PlotMinSize = solid.PlotMinSize = scaled(60, 40);
  flat.MajorTickLen = scaled(5, 5);
  flat.MinorTickLen = scaled(0, 0);
  flat.LegendPadding = scaled(8, 8);
  flat.AnnotationPadding = scaled(5, 3);
}

}  // namespace

GuiContext::GuiContext(const std::string& font) {
  IMGUI_CHECKVERSION();
  imgui_ = ImGui::CreateContext();
  ImGui::SetCurrentContext(imgui_);
  implot_ = ImPlot::CreateContext();
  ImPlot::SetCurrentContext(implot_);
  implot3d_ = ImPlot3D::CreateContext();
  ImPlot3D::SetCurrentContext(implot3d_);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;  // never in the working folder: the window stores its layout itself
  io.LogFilename = nullptr;
  io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  io.ConfigDockingAlwaysTabBar = true;
  widgets::load_fonts(fonts_, font);
  apply_style(widgets::ThemeKind::Dark, 1.0F);
}

GuiContext::~GuiContext() {
  ImGui::SetCurrentContext(imgui_);
  ImPlot3D::DestroyContext(implot3d_);
  ImPlot::DestroyContext(implot_);
  ImGui::DestroyContext(imgui_);
}

void GuiContext::apply_style(widgets::ThemeKind theme, float scale, widgets::Colors colors) {
  palette_ = &widgets::palette_of(theme, colors);
  scale_ = scale;
  ImGuiStyle& style = ImGui::GetStyle();
  const float base = style.FontSizeBase;
  style = ImGuiStyle();
  style.FontSizeBase = base;
  set_sizes(style);
  set_colors(style, *palette_);
  style.ScaleAllSizes(scale);
  style.FontScaleMain = scale;
  set_plot_styles(*palette_, scale);
}

void GuiContext::draw_hard_edges() {
  ImGuiStyle& style = ImGui::GetStyle();
  style.AntiAliasedLines = style.AntiAliasedLinesUseTex = style.AntiAliasedFill = false;
}

std::uint64_t GuiContext::glyph_bytes() const {
  ImGui::SetCurrentContext(imgui_);
  std::uint64_t bytes = 0;
  // Not PlatformIO.Textures: until the frame's end it still lists textures that were destroyed.
  for (const ImTextureData* texture : ImGui::GetIO().Fonts->TexList)
    bytes += static_cast<std::uint64_t>(texture->GetSizeInBytes()) *
             (texture->Pixels != nullptr ? 2 : 1);
  return bytes;
}

}  // namespace kvloupe::figure
