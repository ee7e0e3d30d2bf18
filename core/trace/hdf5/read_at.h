// Positioned reads of an open file, also where the system hands the bytes out in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace kvloupe::trace {

// How many of the bytes there are from `offset` on; fewer than asked for at the end of the file. Nothing
// where reading fails: errno says why.
std::optional<std::size_t> read_at(int descriptor, std::uint64_t offset, std::span<std::byte> out);

}  // namespace kvloupe::trace
