// The view query_geometry: the queries and keys of one head in principal components, of one chunk or of
// all, with S_q of each query and those that the method scores keys with. query_relevance draws the
// queries of the same chunk.
#pragma once

#include "app/state/key_fate.h"
#include "app/state/questions/how_it_works/head_points.h"
#include "core/analysis/query_geometry.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// The method may be none.
struct QueryGeometryQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "query geometry";
  struct Answer {
    analysis::QueryGeometry geometry;
    // The method whose queries geometry.chosen marks, where it singles any out; empty: none, or one
    // that this version does not know.
    std::string chosen_by;
    std::int64_t num_chosen = 0;
    bool votes_after =
        false;  // they say what is evicted after the chunk: what is kept in it is older
    double least_relevance = -1, most_relevance = 1;  // S_q that occur, least < most
    double most_attention = 0;                        // the largest of max_attention

    std::size_t num_queries() const { return geometry.relevance.size(); }
    bool is_chosen(std::size_t query) const { return geometry.is_chosen(query); }
  };

  std::string title() const { return "Measuring the queries"; }
  std::string obstacle() const { return missing(place); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// What the options of the view ask for.
struct GeometryForm {
  enum class Fit { All, Queries, Keys, Both };  // both: side by side
  enum class Color { Relevance, Position, Fate, Attention };
  Fit fit = Fit::All;
  Color color = Color::Relevance;
  int dimensions = 2;
  bool before_rotary = false;
  bool all_chunks = false;

  bool shows_queries() const { return fit != Fit::Keys; }
  bool shows_keys() const { return fit != Fit::Queries; }
  bool apart() const { return fit != Fit::All; }
};
class Workspace;
GeometryForm geometry_form(const Workspace& workspace);

// The method may be none.
struct GeometryQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "geometry";
  GeometryForm form;
  // The smallest box around points.
  struct Box {
    std::array<double, 3> low{}, high{};
    double center(int axis) const { return (low[axis] + high[axis]) / 2; }
    double length(int axis) const { return high[axis] - low[axis]; }
  };
  struct Answer {
    std::shared_ptr<const QueryGeometryQuestion::Answer> queries;  // of the place's chunk
    std::shared_ptr<const analysis::HeadPoints> points;
    std::shared_ptr<const analysis::HeadAttention> attention;  // where that is the colour
    // Of points->every_key, where that is the colour, or where keys have no other one and the
    // method says which it keeps; the latter says nothing of those that are lost, which asks for exact attention.
    std::vector<KeyFate> fates;
    Box box, query_box, key_box;                      // of all points, of the queries, of the keys
    Box key_box_without_sink;                         // of the keys but key 0
    double least_relevance = -1, most_relevance = 1;  // S_q that occur, least < most
    float most_given = 0, most_received = 0;          // of attention

    // Counted from the begin of the place's chunk; nothing for a query of another one.
    std::optional<std::size_t> row_of(const Place& at, std::size_t query) const;
    float given(std::size_t query) const;  // where attention is the colour
    float received(std::size_t key) const;
  };

  std::string key() const { return OfMethod::key(points(), form.fit, form.color); }
  std::string title() const { return "Fitting the principal components"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);

 private:
  HeadPointsQuestion points() const;
  bool knows_kept_keys(const QueryGeometryQuestion::Answer& queries) const;
};

// How much each of these queries attends to the watched keys.
struct KeyWantedQuestion : OfPlace<At::Cell | At::Keys> {
  static constexpr const char* kName = "wanted key";
  struct Answer {
    std::vector<float> attention;  // [m] p of the query, summed over the keys
    float most = 0;
    std::size_t most_of = 0;  // the query that gives most, counted from the chunk's begin

    // 0 to 1, against the query that gives most.
    double part(std::size_t query) const {
      return most > 0 ? static_cast<double>(attention[query] / most) : 0;
    }
  };

  std::string title() const { return "Asking the queries for the key"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return sizeof(answer) + bytes_in(answer.attention);
  }
};

class Workspace;
// Of the keys chosen; of tables, whose column is empty without a choice.
Result<KeyWantedQuestion> of_chosen_keys(Workspace& workspace, const Place& place);

// Whether any query of the place's chunk belongs to the question.
bool asks_question(const Place& place);

}  // namespace kvloupe::state
