// The keys that a method lost in a whole trace, as the commands print them.
#pragma once

#include "core/replay/lost_keys.h"
#include "core/replay/table.h"

#include <cstddef>
#include <string>

namespace kvloupe::cli {

// The first `count` of the keys and of the regrets.
std::string lost_keys_json(const replay::LostKeys& lost, const session::TraceSession& session,
                           std::size_t count);
std::string lost_keys_text(const replay::LostKeys& lost, const session::TraceSession& session,
                           std::size_t count);
// "quoka:... loses 31 % of the mass: query sampling 61 %, head merge 20 %."
std::string causes_sentence(const replay::LostKeys& lost);
// ", of a prompt cut anew into chunks of 64"; empty where it is as recorded.
std::string cut_words(const session::TraceSession& session);
table::Table causes_table(const replay::LostKeys& lost);
table::Table causes_by_layer(const replay::LostKeys& lost);
// The first `count` of each.
table::Table lost_keys_table(const replay::LostKeys& lost, const session::TraceSession& session,
                             std::size_t count);
table::Table regrets_table(const replay::LostKeys& lost, const session::TraceSession& session,
                           std::size_t count);

}  // namespace kvloupe::cli
