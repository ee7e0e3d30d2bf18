#include "core/analysis/heavy_tail.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/session/session_tensors.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvloupe::analysis {

HeavyTail heavy_tail(const session::TraceSession& session, int layer, int chunk, int q_head,
                     const Matrix& rows, const WorkContext& context) {
  const trace::ChunkInfo& span = session.info().chunks.at(static_cast<std::size_t>(chunk));
  KVLOUPE_CHECK(rows.rows == span.length && rows.cols == span.end());
  HeavyTail result;
  const selection::Cell cell = session::load_cell(session, layer, chunk, span);
  result.relevance =
      selection::on_host<double>(selection::query_relevance(cell.q.narrow(0, q_head, 1)));
  result.query_mass.assign(static_cast<std::size_t>(span.length), 0);
  result.key_mass.assign(static_cast<std::size_t>(span.begin), 0);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    context.cancel.throw_if_cancelled();
    for (std::int64_t key = 0; key < span.begin; ++key) {
      const double p = rows.at(r, key);
      result.key_mass[static_cast<std::size_t>(key)] += p;
      if (key > 0) result.query_mass[static_cast<std::size_t>(r)] += p;
    }
  }
  return result;
}

}  // namespace kvloupe::analysis
