// Numbers as people read and write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvloupe {

std::string format_bytes(std::uint64_t bytes);  // "12.3 MiB"
std::string format_duration(double seconds);    // "1 min 20 s", "3.4 s", "12 ms"
std::string format_count(std::int64_t count);   // "32,768"
// The shortest text that reads back equal: "0.5", "16", "1e-05".
std::string format_shortest(double value);
// "8GB", "512MiB", "1.5g", "1048576": GB means 10^9, GiB 2^30.
std::optional<std::uint64_t> parse_size(std::string_view text);
std::optional<std::int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

}  // namespace kvloupe
