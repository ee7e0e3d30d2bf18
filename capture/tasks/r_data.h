// Character vectors out of an R package's lazy-load database (Rdata.rdx beside Rdata.rdb), read
// without R. The index is a compressed list "name -> (offset, length)"; each slice of the database
// is a 4-byte big-endian size and a zlib stream; both hold R's serialisation, XDR format, version 2
// or 3. https://cran.r-project.org/doc/manuals/r-release/R-ints.html, "Serialization Formats"
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

// All variables that are character vectors, as UTF-8; NA becomes "". `index` and `database` are the
// bytes of the two files. Throws Error{Input}, naming `origin`, for anything damaged or
// unsupported.
std::map<std::string, std::vector<std::string>> read_r_database(std::string_view index,
                                                                std::string_view database,
                                                                const std::string& origin);

}  // namespace kvloupe::capture
