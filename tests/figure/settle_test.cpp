// What stands in the way of a figure: a failure, or that there is nothing to show.
#include "app/figure/page.h"
#include "core/base/error.h"
#include "tests/state/small_workspace.h"

#include <gtest/gtest.h>

#include <string>

namespace kvloupe::state {
namespace {

class Settle : public testing::SmallTraceViews {
 protected:
  // "nothing: why", "failed: why", or "".
  std::string outcome(const char* view) {
    try {
      figure::settle(workspace_, *find_view(view), {});
    } catch (const figure::NothingToShow& nothing) {
      return "nothing: " + nothing.why();
    } catch (const Error& error) {
      return "failed: " + error.why();
    }
    return "";
  }
};

TEST_F(Settle, TellsAFailureFromAPlaceThatHasNothing) {
  open();
  choose("quoka:budget_tokens=8");
  go_to("layer=1,chunk=0");
  EXPECT_EQ(outcome("received_rankings"),
            "nothing: The first chunk has no past keys to rank: step to a later one");
  go_to("chunk=2");
  workspace_.answers.start_engine = [] {
    throw input_error("this cannot be computed", "there is not enough memory", "close others");
  };
  EXPECT_NE(outcome("received_rankings").find("failed: "), std::string::npos);
  EXPECT_NE(outcome("selected_vs_true").find("failed: "), std::string::npos);
}

}  // namespace
}  // namespace kvloupe::state
