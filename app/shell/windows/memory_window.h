// What is kept in memory of open traces and results, by part, against --memory-limit.
#pragma once

#include "app/widgets/palette.h"
#include "core/base/memory_account.h"

#include <string>

namespace kvloupe::shell {

void memory_ui(const MemoryAccount& account, const widgets::Palette& palette);

// The sum in few words: "412.0 MiB of 2.0 GiB kept".
std::string memory_text(const MemoryAccount& account);

}  // namespace kvloupe::shell
