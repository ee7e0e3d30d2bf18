// By how much sanitized code is slower, about: for the time after which a test gives up.
#pragma once

namespace kvloupe::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlowness = 10;
#else
inline constexpr int kSlowness = 1;
#endif

}  // namespace kvloupe::test
