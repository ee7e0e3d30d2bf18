// The picture of `kvloupe compare`: one number of its rows against what is swept, against another number,
// or by layer, KV head or chunk.
#pragma once

#include "app/cli/compare_report.h"
#include "app/figure/chart.h"
#include "core/replay/sweep.h"

#include <string>
#include <vector>

namespace kvloupe::cli {

// What is drawn, by name: numbers as in the CSV; x also a swept parameter, layer, kv_head or chunk; y
// also `solved`, the smallest value of the first swept parameter that reaches the target.
struct ChartAxes {
  std::string x, y;
  std::string phase;  // whose rows: "prefill" or "decode"
};
// Empty names by default: the first parameter swept; solved where there is a target, else mass_recall;
// prefill, but for what decode alone has. Throws Error{Usage}.
ChartAxes chart_axes(ChartAxes asked, const std::vector<std::string>& swept, bool has_target);

// What methods are called in a picture: as they were written, those of `all` by their ids, and where
// another one is called so, too, by all that differs from their defaults but the parameters `swept`.
std::vector<std::string> names_in_chart(const std::vector<replay::MethodName>& methods,
                                        const std::vector<std::string>& swept);

// One line a method, and a value of what else is swept; a method without the parameter that x is has a
// dashed one all along. `names` are of the methods of the list that `plan` was made of. Throws
// Error{Input} where no row has both numbers.
figure::Chart compare_chart(const CompareReport& report, const ChartAxes& axes,
                            const replay::SweepPlan& plan, const std::vector<std::string>& names);

}  // namespace kvloupe::cli
