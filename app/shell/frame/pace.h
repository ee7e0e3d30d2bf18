// How often a window draws that only waits.
#pragma once

namespace kvloupe::shell {

// Between frames that nobody asked for. Where the processor draws them, computing gets what is left.
inline constexpr double kAnimationSeconds = 1.0 / 30;

}  // namespace kvloupe::shell
