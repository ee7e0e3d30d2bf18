#include "app/state/questions/kept/text_line.h"

namespace kvloupe::state {

TextLineQuestion::Answer TextLineQuestion::work(Steps& steps) const {
  const auto map = steps.need(KvMapQuestion{place, method});
  const auto verdicts = steps.need(SelectedVsTrueQuestion{place, method});
  Answer answer;
  answer.looks.resize(static_cast<std::size_t>(place.info().num_tokens));
  for (std::size_t t = 0; t < answer.looks.size(); ++t)
    answer.looks[t] = static_cast<std::uint8_t>(
        look_of(map.get(), verdicts.get(), place, static_cast<std::int32_t>(t)));
  return answer;
}

}  // namespace kvloupe::state
