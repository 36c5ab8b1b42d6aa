// Philox4x32-7 for many consecutive counters at once. The words come out in element order: element e of a stream is
// word e % 4 of philox(key, {c0, c1, c2, e / 4}), as base/philox.h computes it.
#include <hwy/highway.h>

#include <cstdint>

#include "tessera/base/philox.h"
#include "tessera/kernels/simd/float_rows-inl.h"

#if defined(TESSERA_KERNELS_SIMD_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_PHILOX_INL_H_
#undef TESSERA_KERNELS_SIMD_PHILOX_INL_H_
#else
#define TESSERA_KERNELS_SIMD_PHILOX_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kPhiloxElements = 2 * kLanes;  ///< elements that one call of PhiloxStream::draw covers

/// All counters {c0, c1, c2, *} under one key. The first round depends on c3 only through one xor, so the rest of it
/// is done once, here.
class PhiloxStream {
 public:
  PhiloxStream() = default;
  HWY_INLINE PhiloxStream(PhiloxKey key, std::uint32_t c0, std::uint32_t c1, std::uint32_t c2) : key_(key) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * c0, p1 = std::uint64_t{kPhiloxM1} * c2;
    c0_ = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ key.k0;
    c1_ = static_cast<std::uint32_t>(p1);
    c2_ = static_cast<std::uint32_t>(p0 >> 32) ^ key.k1;
    c3_ = static_cast<std::uint32_t>(p0);
  }

  /// Words of the elements 4 * quad .. 4 * quad + kPhiloxElements - 1, the first kLanes of them in `first`.
  HWY_INLINE void draw(std::uint32_t quad, U32& first, U32& second) const {
    // One counter per 64-bit lane, its four words in the low halves of four vectors: a widening multiplication reads
    // the low half and leaves (high word, low word), which is what the next round takes; high halves are never read.
    const Tag64 d;
    Words c0 = hn::Set(d, c0_), c1 = hn::Set(d, c1_), c3 = hn::Set(d, c3_);
    Words c2 = hn::Xor(hn::Set(d, c2_), hn::Add(hn::Load(d, kQuads), hn::Set(d, quad)));
    PhiloxKey key = key_;
    HWY_UNROLL(6)  // kPhiloxRounds - 1
    for (int round = 1; round < kPhiloxRounds; ++round) {
      key.k0 += kPhiloxW0;
      key.k1 += kPhiloxW1;
      const Words p0 = multiply(c0, kPhiloxM0), p1 = multiply(c2, kPhiloxM1);
      c0 = hn::Xor3(hn::ShiftRight<32>(p1), c1, hn::Set(d, key.k0));
      c1 = p1;
      c2 = hn::Xor3(hn::ShiftRight<32>(p0), c3, hn::Set(d, key.k1));
      c3 = p0;
    }
    const Words low = join(c0, c1), high = join(c2, c3);
    first = hn::BitCast(U32Tag(), hn::InterleaveLower(d, low, high));
    second = hn::BitCast(U32Tag(), hn::InterleaveUpper(d, low, high));
  }

 private:
  using Tag64 = hn::Repartition<std::uint64_t, F32Tag>;
  using Words = hn::Vec<Tag64>;
  // Quad of each 64-bit lane, so that interleaving inside 128-bit blocks gives consecutive elements.
  alignas(64) static constexpr std::uint64_t kQuads16[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  alignas(64) static constexpr std::uint64_t kQuads8[4] = {0, 2, 1, 3};
  alignas(64) static constexpr std::uint64_t kQuads4[2] = {0, 1};
  static constexpr const std::uint64_t* kQuads = kLanes == 16 ? kQuads16 : kLanes == 8 ? kQuads8 : kQuads4;

  static HWY_INLINE Words multiply(Words a, std::uint32_t b) {
    return hn::MulEven(hn::BitCast(U32Tag(), a), hn::Set(U32Tag(), b));
  }
  // Low half of `a`, then low half of `b`, in each 64-bit lane.
  static HWY_INLINE Words join(Words a, Words b) {
    const U32 odd = hn::BitCast(U32Tag(), hn::ShiftLeft<32>(b));
    return hn::BitCast(Tag64(), hn::OddEven(odd, hn::BitCast(U32Tag(), a)));
  }

  PhiloxKey key_;
  std::uint32_t c0_ = 0, c1_ = 0, c2_ = 0, c3_ = 0;
};

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
