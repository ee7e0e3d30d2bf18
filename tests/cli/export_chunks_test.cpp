// Files and tables of all chunks: those with nothing to show are left out and named, and each row says its chunk.
#include "tests/base/temporary_folder.h"
#include "tests/cli/cli_test.h"

#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe {
namespace {

// 152 tokens in five chunks, then three decode steps.
const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";
const std::string kQuoka = "quoka:budget_tokens=6,num_queries=2";

ProgramResult exported(const std::string& view, const std::string& method, const Words& more) {
  Words words{"export", kTrace, "--view", view, "--method", method, "--size", "400x300"};
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words);
}

// The head and the first cells of the rows.
std::pair<std::string, std::set<std::string>> head_and_chunks(const std::string& csv) {
  std::istringstream lines(csv);
  std::string head;
  std::getline(lines, head);
  std::set<std::string> chunks;
  for (std::string line; std::getline(lines, line);) chunks.insert(line.substr(0, line.find(',')));
  return {head, chunks};
}

TEST(AllChunks, LeavesOutThoseWithNothingToShow) {
  const std::set<std::string> later{"1", "2", "3", "4", "5", "6", "7"};
  for (const auto& [view, method] :
       std::map<std::string, std::string>{{"slot_scores", kQuoka},
                                          {"received_rankings", kQuoka},
                                          {"quest_pages", "quest:budget_tokens=24"},
                                          {"head_merge", kQuoka}}) {
    const ProgramResult all = exported(view, method, {"--all-chunks", "--csv", "-"});
    ASSERT_EQ(all.exit_code, 0) << view << all.standard_error;
    EXPECT_THAT(all.standard_error, HasSubstr("warning: chunk 0 is left out: ")) << view;
    EXPECT_EQ(head_and_chunks(all.standard_output).second, later) << view;
  }
  // Its method reads all blocks while it decodes.
  const ProgramResult blocks = exported(
      "block_tables", "flash_prefill:lowering=union,block_size=16", {"--all-chunks", "--csv", "-"});
  ASSERT_EQ(blocks.exit_code, 0) << blocks.standard_error;
  EXPECT_THAT(blocks.standard_error,
              HasSubstr("warning: chunks 0, 5 to 7 are left out, the first for this reason: The "
                        "first chunk has no past"));
  EXPECT_EQ(head_and_chunks(blocks.standard_output).second,
            (std::set<std::string>{"1", "2", "3", "4"}));
}

// Also of two kinds of frames it is said once.
TEST(Frames, LeaveOutChunksWithNothingToShow) {
  const TemporaryFolder folder;
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const auto expect_said_once = [](const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    const std::string said = "warning: chunk 0 is left out: there are no keys before this chunk\n";
    const std::size_t at = result.standard_error.find(said);
    EXPECT_NE(at, std::string::npos) << result.standard_error;
    EXPECT_EQ(at, result.standard_error.rfind(said));
  };
  const ProgramResult animated =
      exported("slot_scores", kQuoka, {"--gif", file("all.gif"), "--apng", file("all.png")});
  expect_said_once(animated);
  EXPECT_TRUE(std::filesystem::exists(folder / "all.gif"));
  EXPECT_TRUE(std::filesystem::exists(folder / "all.png"));
  const ProgramResult numbered =
      exported("slot_scores", kQuoka,
               {"--frames", "chunks", "--png", file("of-%d.png"), "--csv", file("a.csv")});
  expect_said_once(numbered);
  EXPECT_FALSE(std::filesystem::exists(folder / "of-0.png"));
  EXPECT_TRUE(std::filesystem::exists(folder / "of-1.png"));
  EXPECT_TRUE(std::filesystem::exists(folder / "of-7.png"));
  EXPECT_TRUE(std::filesystem::exists(folder / "a.csv"));
}

// The layer is dense by the method's rule: no chunk is left.
TEST(Frames, WithoutAnyChunkAreRefused) {
  const TemporaryFolder folder;
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const Words forms[] = {{"--all-chunks", "--csv", file("a.csv")},
                         {"--gif", file("a.gif")},
                         {"--frames", "chunks", "--png", file("a-%d.png"), "--csv", file("a.csv")}};
  for (Words words : forms) {
    words.insert(words.end(), {"--goto", "layer=1"});
    expect_refused(exported("head_merge", kQuoka + ",skip_layers=2", words), 1,
                   "the view head_merge cannot be exported; Layer 1 keeps everything in ");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A column `chunk` of the view's own is of its keys.
TEST(AllChunks, EachRowSaysTheChunkThatItIsOf) {
  const std::set<std::string> chunks{"0", "1", "2", "3", "4", "5", "6", "7"};
  const auto table = [&](const std::string& view, const Words& more) {
    Words words{"--all-chunks", "--csv", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult all = exported(view, kQuoka, words);
    EXPECT_EQ(all.exit_code, 0) << view << all.standard_error;
    return head_and_chunks(all.standard_output);
  };
  const auto strip = table("token_strip", {});
  EXPECT_THAT(strip.first, StartsWith("at_chunk,position,token,chunk,"));
  EXPECT_EQ(strip.second, chunks);
  const auto points = table("query_geometry", {"--span", "head"});
  EXPECT_THAT(points.first, StartsWith("at_chunk,kind,position,chunk,"));
  EXPECT_EQ(points.second, chunks);
  EXPECT_THAT(table("query_geometry", {}).first, StartsWith("chunk,kind,position,pc1"));
  for (const char* view : {"kv_map", "method_diff", "decode_drift"})
    expect_refused(run_program({"export", kTrace, "--view", view, "--all-chunks", "--csv", "-"}), 2,
                   "it shows all chunks, or none, in any case");
}

}  // namespace
}  // namespace kvloupe
