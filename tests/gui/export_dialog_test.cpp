// Exporting by mouse: nothing that is open is written over, however it is named, and what else is
// there is asked for first.
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

class ExportDialog : public test::WindowTest {
 protected:
  void SetUp() override {
    fs::remove_all("exports");
    fs::create_directories("exports");
    explorer().exporter().run_command = [this](const std::vector<std::string>& arguments,
                                               const CancelToken&) {
      written_.push_back(arguments.back());
      std::ofstream(arguments.back()) << "exported";
      return std::string();
    };
    if (workspace().traces.tabs().empty()) {
      open(trace("shown.h5"));
      open(trace("beside.h5"));
      workspace().traces.open(trace("shown.h5"));
      settle();
    }
  }
  static const std::string& trace(const std::string& name) {
    static std::map<std::string, std::string> paths;
    std::string& path = paths[name];
    if (path.empty()) {
      path = test::write_gui_trace(name, {.num_tokens = 640});
    }
    return path;
  }
  // The menu of the view's tab, the name typed (the dialog begins in the folder of the traces), the
  // button pressed.
  void export_to(const std::string& file, const std::string& format = "png") {
    explorer().panels().show("kv_map");
    settle();
    export_view("kv_map", format, file);
  }
  static bool is_asked() { return ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopup); }
  static void answer(const char* button) {
    drive("answer", [button](ImGuiTestContext* ctx) {
      ctx->SetRef("//$FOCUSED");
      ctx->ItemClick(button);
      ctx->Yield(3);
    });
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::vector<std::string> written_;
};

TEST_F(ExportDialog, RefusesWhatIsOpen) {
  const std::string shown = trace("shown.h5"), beside = trace("beside.h5");
  const fs::path folder = fs::absolute("exports");
  fs::create_symlink(shown, folder / "link.png");
  fs::create_symlink("link.png", folder / "link to link.png");
  fs::create_hard_link(shown, folder / "hard.png");
  fs::create_symlink(beside + ".runs.h5", folder / "sidecar.png");
  const std::string before = bytes_of(shown), runs = bytes_of(shown + ".runs.h5"),
                    other = bytes_of(beside);
  for (const char* file : {"shown.h5", "shown.h5.runs.h5", "shown.h5.part", "beside.h5",
                           "beside.h5.runs.h5", "exports/../shown.h5", "exports/link.png",
                           "exports/link to link.png", "exports/hard.png", "exports/sidecar.png"}) {
    const std::size_t told = explorer().messages().history().size();
    export_to(file);
    EXPECT_FALSE(is_asked()) << file;
    ASSERT_EQ(explorer().messages().history().size(), told + 1) << file;
    EXPECT_THAT(explorer().messages().history().back(),
                HasSubstr("it is a file that this command reads, or belongs to one"))
        << file;
  }
  EXPECT_TRUE(written_.empty());
  EXPECT_EQ(bytes_of(shown), before);
  EXPECT_EQ(bytes_of(shown + ".runs.h5"), runs);
  EXPECT_EQ(bytes_of(beside), other);
}

TEST_F(ExportDialog, RefusesAnotherTraceAndAFolderWithoutAFile) {
  const std::string closed = trace("closed.h5");
  const std::string before = bytes_of(closed);
  for (const char* file : {"closed.h5", "/nowhere/figure.png"}) {
    const std::size_t told = explorer().messages().history().size();
    export_to(file);
    EXPECT_FALSE(is_asked()) << file;
    EXPECT_EQ(explorer().messages().history().size(), told + 1) << file;
  }
  EXPECT_TRUE(written_.empty());
  EXPECT_EQ(bytes_of(closed), before);
}

TEST_F(ExportDialog, AsksBeforeAFileIsReplaced) {
  const std::string file = fs::absolute("exports/figure.png").string();
  export_to("exports/figure.png");
  EXPECT_EQ(written_, std::vector<std::string>{file}) << "a new file needs no leave";
  std::ofstream(file) << "mine";
  export_to("exports/figure.png");
  ASSERT_TRUE(is_asked());
  EXPECT_EQ(bytes_of(file), "mine");
  save_picture("replace.png");
  answer("Keep it");
  EXPECT_FALSE(is_asked());
  EXPECT_EQ(bytes_of(file), "mine");
  EXPECT_EQ(written_.size(), 1U);
  export_to("exports/figure.png");
  ASSERT_TRUE(is_asked());
  answer("Replace");
  settle();
  EXPECT_EQ(bytes_of(file), "exported");
  EXPECT_EQ(written_.size(), 2U);
  EXPECT_THAT(explorer().messages().history().back(), HasSubstr("Written: "));
}

// The command would make the same file; it is not run, and nothing is computed.
TEST_F(ExportDialog, TablesAndArraysAreMadeOfWhatStandsOnScreen) {
  explorer().panels().show("kv_map");
  settle();
  const state::ViewInfo& view = state::view_named("kv_map");
  ASSERT_EQ(view.problem(workspace()), "");
  const std::string table = state::text_of(view.table(workspace()), state::Format::Csv);
  const std::string array = state::npy_bytes(view.array(workspace()));
  export_to("exports/kept.csv", "csv");
  export_to("exports/kept.npy", "npy");
  settle();
  EXPECT_TRUE(written_.empty()) << "the command line was run";
  EXPECT_TRUE(bytes_of("exports/kept.csv") == table);
  EXPECT_TRUE(bytes_of("exports/kept.npy") == array);
  EXPECT_THAT(explorer().messages().history().back(), HasSubstr("Written: "));
}

// Traces are read while it is drawn.
TEST_F(ExportDialog, APictureUnderWayEndsOnceItIsCancelled) {
  std::atomic<bool> begun = false, ended = false;
  explorer().exporter().run_command = [&](const std::vector<std::string>&,
                                          const CancelToken& cancel) -> std::string {
    begun = true;
    while (!cancel.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ended = true;
    throw cancelled_error();
  };
  const std::string later = trace("later.h5");
  explorer().exporter().ask(state::view_named("kv_map"), state::Format::Png, ".");
  drive("long picture", [&](ImGuiTestContext* ctx) {
    save_as(ctx, "exports/long.png");
    workspace().traces.open(later);
    const auto is_read = [&] { return begun && workspace().has_trace(); };
    for (int frame = 0; frame < 1000 && !is_read(); ++frame) ctx->Yield();
    const bool read = is_read();
    JobSystem& jobs = workspace().answers.jobs();
    for (const JobStatus& job : jobs.status())
      if (job.tag.starts_with("export ")) jobs.give_up(job.tag);  // what follows waits for its end
    IM_CHECK(read);
  });
  EXPECT_TRUE(ended);
  EXPECT_THAT(explorer().messages().history().back(), HasSubstr("was cancelled"));
  explorer().run_command("close");
}

}  // namespace
}  // namespace kvloupe
