#pragma once
// Sizes that find mistakes: 0, 1, primes, powers of two and their neighbors.
#include <array>
#include <cstdint>

namespace tessera::testing {

struct Shape {
  std::int64_t rows, cols;
};

/// Lengths around vector, group and chunk borders.
inline constexpr std::array<std::int64_t, 24> kLengths = {0,  1,  2,  3,  7,  8,   9,   15,  16,  17,  31,  32,
                                                          33, 63, 64, 65, 97, 127, 128, 129, 255, 256, 257, 523};

/// Few rows and columns of every kind, none too large for a slow reference.
inline constexpr std::array<Shape, 12> kShapes = {{{0, 16},
                                                   {1, 1},
                                                   {1, 523},
                                                   {2, 17},
                                                   {3, 64},
                                                   {5, 31},
                                                   {63, 65},
                                                   {64, 64},
                                                   {65, 63},
                                                   {67, 129},
                                                   {128, 16},
                                                   {131, 97}}};

}  // namespace tessera::testing
