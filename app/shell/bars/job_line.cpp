#include "app/shell/bars/job_line.h"

#include "app/widgets/figure.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::shell {

void recording_ui(state::OpenResults& results, const widgets::Palette& palette) {
  if (!results.recording.running()) return;
  // The button first: it stays where it is while the words change.
  if (ImGui::SmallButton("Cancel##recording")) results.recording.cancel();
  if (ImGui::IsItemHovered()) widgets::tooltip("Nothing of the sample's trace stays");
  ImGui::SameLine();
  const float room = ImGui::GetContentRegionAvail().x / 2;
  widgets::text_colored(palette.accent, widgets::elided(results.recording.words(), room));
  ImGui::SameLine();
}

void job_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  const auto jobs = workspace.answers.jobs().status();
  if (jobs.empty()) {
    const bool idle = workspace.has_trace() && !workspace.results.recording.running();
    widgets::text_colored(palette.faint, idle ? "Ready" : "");
    return;
  }
  const JobStatus& job = jobs.front();
  // The bar and Cancel have their room in any case.
  const float room = ImGui::GetContentRegionAvail().x - widgets::em(22);
  widgets::text_colored(palette.text,
                        widgets::elided(job.title + (job.stage.empty() ? "" : ": " + job.stage),
                                        std::max(room, widgets::em(8))));
  ImGui::SameLine();
  if (job.total > 0) {
    const double share = static_cast<double>(job.done) / static_cast<double>(job.total);
    widgets::share_bar_ui(palette, share, palette.accent, widgets::em(9), widgets::em(0.4F));
    ImGui::SameLine();
  }
  if (jobs.size() > 1) {
    widgets::text_colored(palette.muted, fmt::format("and {} more", jobs.size() - 1));
    ImGui::SameLine();
  }
  if (ImGui::SmallButton("Cancel##jobs")) workspace.answers.give_up(job.tag);
}

}  // namespace kvloupe::shell
