#include "app/state/questions/kept/aligned_traces.h"

#include <algorithm>
#include <utility>

namespace kvloupe::state {
namespace {

replay::KeyPairs turned(const replay::KeyPairs& pairs) {
  return {pairs.a_of_b, pairs.b_of_a, pairs.count};
}

}  // namespace

AlignedTraces::Answer(replay::KeyPairs pairs, const std::vector<trace::ChunkInfo>& of_a,
                      const std::vector<trace::ChunkInfo>& of_b)
    : keys_(std::move(pairs)) {
  const std::int32_t in_a = of_a.back().end(), in_b = of_b.back().end();
  same_prompt_ = in_a == in_b && keys_.count == in_a;
  chunks_in_b_ = replay::paired_chunks(of_a, of_b, keys_);
  chunks_in_a_ = replay::paired_chunks(of_b, of_a, turned(keys_));
  corners_.push_back({0, 0});
  for (std::int32_t key = 0; key < in_a; ++key) {
    const std::int32_t partner = keys_.in_b(key);
    if (partner < 0) continue;
    const Corner begin{static_cast<double>(key), static_cast<double>(partner)};
    const Corner& last = corners_.back();
    // A token that follows its neighbour in both lengthens the run.
    const bool goes_on = corners_.size() > 1 && last.a == begin.a && last.b == begin.b;
    if (goes_on) corners_.pop_back();
    if (!goes_on) corners_.push_back(begin);
    corners_.push_back({begin.a + 1, begin.b + 1});
  }
  corners_.push_back({static_cast<double>(in_a), static_cast<double>(in_b)});
}

double AlignedTraces::in_b(double position, Side side) const {
  return moved(position, side, &Corner::a, &Corner::b);
}

double AlignedTraces::in_a(double position, Side side) const {
  return moved(position, side, &Corner::b, &Corner::a);
}

double AlignedTraces::moved(double position, Side side, double Corner::*from,
                            double Corner::*to) const {
  // Of corners at one position the first is where what ends here ends, the last where what begins here
  // begins; a range that begins at 0 shows all from the begin on, one that ends at the end all up to it.
  const auto below = [&](const Corner& corner, double value) { return corner.*from < value; };
  const auto above = [&](double value, const Corner& corner) { return value < corner.*from; };
  const bool first = position <= 0 || (side == Side::End && position < corners_.back().*from);
  const auto at = first ? std::lower_bound(corners_.begin(), corners_.end(), position, below)
                        : std::upper_bound(corners_.begin(), corners_.end(), position, above);
  if (first) {
    if (at == corners_.end()) return corners_.back().*to;
    if (at == corners_.begin() || (*at).*from == position) return (*at).*to;
  } else {
    if (at == corners_.end()) return corners_.back().*to;
    if ((*std::prev(at)).*from == position) return (*std::prev(at)).*to;
  }
  const Corner &left = *std::prev(at), &right = *at;
  return left.*to + (position - left.*from) * (right.*to - left.*to) / (right.*from - left.*from);
}

AlignedTraces AlignedTracesQuestion::work(Steps& steps) const {
  return {replay::paired_keys(*a->session, *b->session, steps.context.cancel), a->info().chunks,
          b->info().chunks};
}

std::uint64_t AlignedTracesQuestion::bytes(const Answer& answer) {
  return sizeof(answer) + 4 * (answer.keys().b_of_a.size() + answer.keys().a_of_b.size());
}

}  // namespace kvloupe::state
