// Quest (arXiv 2406.10774): pages of page_size keys, chosen for each query by a bound on what any
// of their keys can score.
//   kmax[p,c], kmin[p,c] = largest and smallest key value of page p in channel c
//   U[h,p] = sum_c max(q[h,c] kmax[p,c], q[h,c] kmin[p,c])      (>= q . k for every key of the page)
//   each query head attends to its n pages of largest U, the last page among them (force_last_page)
// n = max(1, floor(B/page_size)) (rule=eval), or max(2, ...) with the last page always (rule=kernel).
// Decoding follows the paper: pages over [0,T), the new token in the last one. A prompt's chunks are
// dense in the paper; the two replays that show pages there are extensions:
//   chunk:     U[h,p] = max over the chunk's rows, pages over the past keys [0,P)
//   per_query: row i (position P+i) chooses n of the pages over [0,P+i]; what is shown is the union
//              of the rows' choices, cut to [0,P)
// gqa_reduce brings the heads of a group to one set after the maximum over rows: the union of their
// pages, or the n best by the largest or the mean U.
#include "core/selection/spec/method.h"

#include <string>

namespace kvloupe::selection {
namespace {

enum class Prefill { Chunk, PerQuery, Dense };
enum class HeadReduce { PerQueryHead, Union, MaxScore, MeanScore };

HeadReduce group_reduce(const MethodSpec& spec) {
  const std::string& text = spec.text("gqa_reduce");
  if (text == "union") return HeadReduce::Union;
  if (text == "max_score") return HeadReduce::MaxScore;
  if (text == "mean_score") return HeadReduce::MeanScore;
  return HeadReduce::PerQueryHead;
}

Prefill prefill(const MethodSpec& spec) {
  const std::string& text = spec.text("prefill");
  if (text == "per_query") return Prefill::PerQuery;
  return text == "dense" ? Prefill::Dense : Prefill::Chunk;
}

bool has_kernel_rule(const MethodSpec& spec) { return spec.text("rule") == "kernel"; }

bool forces_last_page(const MethodSpec& spec) {
  return has_kernel_rule(spec) || spec.flag("force_last_page");
}

}  // namespace
}  // namespace kvloupe::selection

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/blocks/pages.h"
#include "core/selection/cell_rows.h"
#include "core/selection/visibility_selector.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::selection {
namespace {

// Pages taken so far for one row of the selection.
struct PageSet {
  std::vector<std::uint8_t> taken;  // per page
  std::int64_t forced_page = -1;    // the only one that can be kept by rule and hold past keys
  std::int64_t ties_at_cut = 0;

  // Of num_pages pages from first_page on.
  void add(const SelectedRow& kept, std::int64_t first_page, std::int64_t num_pages,
           bool last_is_forced) {
    const std::int64_t end = first_page + num_pages;
    if (static_cast<std::int64_t>(taken.size()) < end)
      taken.resize(static_cast<std::size_t>(end), 0);
    for (const std::int32_t page : kept.positions)
      taken[static_cast<std::size_t>(first_page + page)] = 1;
    ties_at_cut = kept.ties_at_cut;
    if (last_is_forced && forced_page < 0) forced_page = end - 1;
  }

  SelectedRow past_tokens(PageGrid grid, std::int64_t past_len) const {
    grid.num_tokens = past_len;
    SelectedRow row;
    row.ties_at_cut = ties_at_cut;
    for (std::int64_t page = 0; page < grid.num_pages(); ++page) {
      if (taken[static_cast<std::size_t>(page)] == 0) continue;
      const std::vector<std::int32_t> tokens = range(grid.begin(page), grid.end(page));
      row.positions.insert(row.positions.end(), tokens.begin(), tokens.end());
      if (page == forced_page) row.forced = tokens;
    }
    return row;
  }
};

class Quest final : public VisibilitySelector {
 public:
  explicit Quest(const MethodSpec& spec)
      : VisibilitySelector(spec),
        page_size_(spec.integer("page_size")),
        prefill_(prefill(spec)),
        kernel_rule_(has_kernel_rule(spec)),
        force_last_(forces_last_page(spec)),
        reduce_(group_reduce(spec)) {}

 protected:
  bool dense_by_rule(const Cell& cell) const override {
    return cell.phase == trace::Phase::Prefill && prefill_ == Prefill::Dense;
  }

  std::int64_t num_rows(const Cell& cell) const override {
    return reduce_ == HeadReduce::PerQueryHead ? cell.num_q_heads() : cell.num_kv_heads();
  }

  std::vector<SelectedRow> choose(const Cell& cell, std::int64_t, std::int64_t budget) override {
    PageBounds& bounds = bounds_of(cell);
    std::vector<PageSet> sets(static_cast<std::size_t>(num_rows(cell)));
    // All are asked before the host waits for one of them.
    std::vector<Pages> asked;
    std::vector<KeptRows> kept;
    for_each_choice(cell, bounds, [&](Pages pages) {
      kept.push_back(keep_best_rows(pages.scores, num_pages(budget), pages.forced));
      pages.scores = pages.forced = at::Tensor();
      asked.push_back(std::move(pages));
    });
    const std::vector<SelectedRow> rows_kept = rows_of(kept);
    const std::size_t choices = rows_kept.size() / asked.size();
    for (std::size_t i = 0; i < asked.size(); ++i)
      take(asked[i], std::span(rows_kept).subspan(i * choices, choices), sets);
    // A union of many rows has no cut.
    if (has_many_choices(cell))
      for (PageSet& set : sets) set.ties_at_cut = 0;
    std::vector<SelectedRow> rows;
    for (const PageSet& set : sets) rows.push_back(set.past_tokens(bounds.grid(), cell.past_len));
    return rows;
  }

  // Where many choices are united a page's score is minus its best rank in any of them.
  std::vector<RowEvidence> evidence_of(const Cell& cell, std::int64_t,
                                       std::int64_t budget) override {
    PageBounds& bounds = bounds_of(cell);
    std::vector<RowEvidence> rows(static_cast<std::size_t>(num_rows(cell)));
    const bool united = has_many_choices(cell) || reduce_ == HeadReduce::Union;
    for_each_choice(cell, bounds, [&](const Pages& pages) {
      const std::vector<float> scores = on_host<float>(pages.scores);
      const auto choices = static_cast<std::size_t>(pages.scores.size(0));
      for (std::size_t i = 0; i < choices; ++i) {
        const auto own = std::span(scores).subspan(i * pages.count, pages.count);
        RowEvidence choice = evidence_of_choice(pages, own, num_pages(budget));
        RowEvidence& row = rows[i / (choices / rows.size())];
        united ? unite(choice, row) : void(row = std::move(choice));
      }
    });
    PageGrid past = bounds.grid();
    past.num_tokens = cell.past_len;
    for (RowEvidence& row : rows) leave_to_past(past, row);
    return rows;
  }

 private:
  // The pages [first, first + count) of the cell, as some rows of the chunk see them.
  struct Pages {
    at::Tensor scores;  // [num_q_heads or num_kv_heads, count]
    at::Tensor forced;  // uint8 [count], or undefined
    std::int64_t first = 0, count = 0;
  };

  std::int64_t num_pages(std::int64_t budget) const {
    return std::max<std::int64_t>(kernel_rule_ ? 2 : 1, budget / page_size_);
  }

  bool has_many_choices(const Cell& cell) const {
    return cell.phase == trace::Phase::Prefill && prefill_ == Prefill::PerQuery;
  }

  PageBounds& bounds_of(const Cell& cell) {
    // Where a window has moved on, its first page is another one in every chunk.
    const auto found = bounds_.find(cell.layer);
    if (found == bounds_.end() || cell.first_key > 0)
      bounds_.insert_or_assign(cell.layer, PageBounds(page_size_, cell.first_key % page_size_));
    return bounds_.at(cell.layer);
  }

  // Calls `choose` with the pages that rows of the chunk choose among, together or one by one.
  template <typename Choose>
  void for_each_choice(const Cell& cell, PageBounds& bounds, const Choose& choose) const {
    if (cell.phase == trace::Phase::Prefill && prefill_ == Prefill::Chunk) {
      bounds.extend(cell.k, cell.past_len);
      choose(pages_of(cell.q, bounds, 0));
      return;
    }
    for (std::int64_t row = 0; row < cell.chunk_len; ++row) {
      const std::int64_t position = cell.past_len + row;
      const std::int64_t hidden = cell.softmax.first_visible(position);
      const at::Tensor q = cell.q.narrow(1, row, 1);
      if (hidden == 0) {
        bounds.extend(cell.k, position + 1);
        choose(pages_of(q, bounds, 0));
      } else {
        const std::int64_t begin = cell.first_key + hidden, end = position + 1;
        PageBounds own(page_size_, begin % page_size_);
        own.extend(cell.k.narrow(1, hidden, end - hidden), end - hidden);
        choose(pages_of(q, own, begin / page_size_ - cell.first_key / page_size_));
      }
    }
  }

  // What these rows of every query head make of the pages of `bounds`, which begin at page `first` of
  // the cell.
  Pages pages_of(const at::Tensor& q, const PageBounds& bounds, std::int64_t first) const {
    const at::Tensor values = bounds.values();
    Pages pages{
        reduced(page_scores(q, values), values.size(0)), {}, first, bounds.grid().num_pages()};
    if (force_last_) {
      pages.forced = at::zeros({pages.count}, pages.scores.options().dtype(at::kByte));
      pages.forced.narrow(0, pages.count - 1, 1).fill_(1);
    }
    return pages;
  }

  // Adds those of the pages that were kept.
  void take(const Pages& pages, std::span<const SelectedRow> kept,
            std::vector<PageSet>& sets) const {
    const std::size_t each = kept.size() / sets.size();
    for (std::size_t row = 0; row < kept.size(); ++row)
      sets[row / each].add(kept[row], pages.first, pages.count, force_last_);
    if (reduce_ == HeadReduce::Union)
      for (PageSet& set : sets) set.ties_at_cut = 0;
  }

  // Of all pages of the cell up to the last of these; the ranges are left out.
  RowEvidence evidence_of_choice(const Pages& pages, std::span<const float> scores,
                                 std::int64_t count) const {
    RowEvidence choice;
    choice.scores.assign(static_cast<std::size_t>(pages.first),
                         std::numeric_limits<double>::quiet_NaN());
    choice.scores.insert(choice.scores.end(), scores.begin(), scores.end());
    choice.forced.assign(choice.scores.size(), 0);
    if (force_last_) choice.forced.back() = 1;
    choice.num_kept = std::min(count, pages.count);
    return choice;
  }

  static void unite(const RowEvidence& choice, RowEvidence& row) {
    row.unites_choices = true;
    row.scores.resize(std::max(row.scores.size(), choice.scores.size()),
                      std::numeric_limits<double>::quiet_NaN());
    row.forced.resize(row.scores.size(), 0);
    double rank = 0;
    for (const std::int32_t page : choice.order()) {
      if (std::isnan(choice.scores[page])) break;
      if (++rank <= static_cast<double>(choice.num_kept) &&
          !(-row.scores[page] <= static_cast<double>(choice.num_kept)))
        ++row.num_kept;
      if (!(row.scores[page] >= -rank)) row.scores[page] = -rank;
    }
  }

  // Sets the ranges, and leaves out the pages that hold the chunk's keys alone.
  static void leave_to_past(const PageGrid& past, RowEvidence& row) {
    const auto num_pages = static_cast<std::size_t>(past.num_pages());
    const std::vector<std::int32_t> order = row.order();
    const std::span kept = std::span(order).first(static_cast<std::size_t>(row.num_kept));
    row.num_kept = std::count_if(kept.begin(), kept.end(), [&](std::int32_t page) {
      return static_cast<std::size_t>(page) < num_pages;
    });
    row.scores.resize(num_pages);
    row.forced.resize(num_pages);
    for (std::int64_t page = 0; page < past.num_pages(); ++page) {
      row.begin.push_back(static_cast<std::int32_t>(past.begin(page)));
      row.end.push_back(static_cast<std::int32_t>(past.end(page)));
    }
  }

  // Scores of all query heads, those of a group brought together where they choose as one.
  at::Tensor reduced(const at::Tensor& scores, std::int64_t num_kv_heads) const {
    if (reduce_ != HeadReduce::MaxScore && reduce_ != HeadReduce::MeanScore) return scores;
    const at::Tensor groups = scores.view({num_kv_heads, -1, scores.size(1)});
    return reduce_ == HeadReduce::MaxScore ? groups.amax(1)
                                           : groups.mean({1}, false, at::kDouble).to(at::kFloat);
  }

  std::int64_t page_size_;
  Prefill prefill_;
  bool kernel_rule_;
  bool force_last_;
  HeadReduce reduce_;
  std::map<int, PageBounds> bounds_;  // by layer
};

}  // namespace

std::unique_ptr<Selector> make_quest(const Setup& setup) {
  return std::make_unique<Quest>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {
namespace {

std::string title(const MethodSpec& spec) {
  std::string text = "Quest";
  if (prefill(spec) == Prefill::Chunk) text += ", chunk replay";
  if (prefill(spec) == Prefill::PerQuery) text += ", per-query replay";
  const HeadReduce reduce = group_reduce(spec);
  if (reduce == HeadReduce::Union) text += ", union over the group";
  if (reduce == HeadReduce::MaxScore) text += ", largest score of the group";
  if (reduce == HeadReduce::MeanScore) text += ", mean score of the group";
  return text == "Quest" ? text : text + " (extension)";
}

std::vector<ParamInfo> parameters() {
  return {
      int_param("page_size", 16, 1, 1 << 20, "keys in a page"),
      enum_param("prefill", {"chunk", "per_query", "dense"},
                 "a prompt's chunks: pages by the largest bound over the chunk's queries, pages "
                 "for each query of which the union over the chunk's past is shown, or all keys as "
                 "in the paper; the first two are extensions"),
      enum_param("rule", {"eval", "kernel"},
                 "pages kept: floor(B/page_size), at least 1, the last page as force_last_page "
                 "says; or at least 2, the last one always among them"),
      enum_param("gqa_reduce", {"per_query_head", "union", "max_score", "mean_score"},
                 "query heads that share a KV head: each its own pages, the union of them, or one "
                 "choice by the largest or the mean bound; the last three are extensions"),
      int_param("skip_layers", 2, 0, 1 << 20, "the model's first layers, which stay dense"),
      flag_param("force_last_page", true,
                 "rule=eval: the last page is kept whatever it scores, as one of the pages kept"),
  };
}

}  // namespace

void describe_quest(Method& method) {
  method.title = "Quest, chunk replay (extension)";
  method.paper_spec =
      "quest:budget_tokens=1024,page_size=16,prefill=dense,skip_layers=2,force_last_page=0";
  method.deviation =
      "the paper selects in decode only: selection in prefill (prefill=chunk, prefill=per_query) "
      "is "
      "KVLoupe's extension, and prefill=dense,force_last_page=0 is the paper's protocol; under "
      "grouped queries every query head "
      "has its own pages as in the evaluation code, the group reductions are extensions; the "
      "evaluation code's floor of 3 pages is not copied, and force_last_page adds to it the "
      "kernels' last page; bounds start from a page's first key, not from 65504; a query of "
      "prefill=per_query is a decode step of its own, its page forced as force_last_page says; the "
      "kernels' full attention where the pages fit the budget is the "
      "fallback for P <= B; at equal bounds the earlier page is kept; a decoded token that begins "
      "a page leaves one page less to the past, as in the paper: the last page is then the token's "
      "own, counts as one of the pages kept and adds no past key; the token itself is always "
      "visible";
  method.summary = "Keeps the pages whose channel-wise largest and smallest keys promise most.";
  method.paper =
      "Tang et al.: Quest: query-aware sparsity for efficient long-context LLM inference, ICML "
      "2024, arXiv 2406.10774";
  method.evidence =
      "section 3 and Algorithm 1; repository mit-han-lab/Quest, evaluation/quest_attention.py "
      "(rule=eval) and its kernels (rule=kernel)";
  method.needs = {"q", "k"};
  method.granularity = trace::Granularity::Page;
  method.row_axis = trace::RowAxis::QHead;
  method.params = parameters();
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.page_size = spec.integer("page_size");
    traits.forces_last_page = forces_last_page(spec);
    traits.prefill_sees_past_only = prefill(spec) == Prefill::Chunk;
    traits.unites_heads = group_reduce(spec) == HeadReduce::Union;
  };
  method.title_of = title;
  method.row_layout = [](const MethodSpec& spec, const ModelShape& shape) -> RowLayout {
    if (group_reduce(spec) == HeadReduce::PerQueryHead) return {trace::RowAxis::QHead, 1};
    return {trace::RowAxis::KvHead, shape.num_q_heads / shape.num_kv_heads};
  };
  method.metadata = [](const MethodSpec&, const ModelShape& shape) {
    return Metadata{.lanes_per_page = 2 * shape.head_dim};
  };
}

}  // namespace kvloupe::selection

#endif
