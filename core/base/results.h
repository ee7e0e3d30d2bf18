// What a command answers, on standard output: held back until the command has succeeded, then
// delivered whole. A failure leaves nothing there, and a result that was not delivered is a failure.
// Messages for people go to standard error (log.h). No other file writes to standard output.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace kvloupe::results {

// Once, before any file is opened: a closed standard stream would be taken by the first of them. Also
// makes a reader that went away an error of the write, not the end of the program.
void claim_standard_streams();

// For people: what could steer a terminal is shown escaped (printable.h).
void add_text(std::string_view text);
// JSON, tables and pictures, byte for byte.
void add_data(std::string_view bytes);
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  add_text(fmt::format(format, std::forward<Args>(args)...));
}

// Thrown, but not an error: the reader of the results took some of them and closed the pipe, as head
// does. The program ends without a message.
struct ReaderGone {};

// Writes all that was added since the last time. Throws Error{Input} where it could not be written, and
// ReaderGone.
void deliver();

}  // namespace kvloupe::results
