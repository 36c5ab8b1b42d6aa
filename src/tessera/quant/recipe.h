#pragma once
// A recipe says what each of a linear layer's three products does to its operands (spec section 7).
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::quant {

/// How one product is computed. A product of integers is an integer product; nothing is fake-quantized.
///   kFp32  operands fp32                          kBf16  operands bf16, fp32 accumulation
///   kInt8  both operands INT8, one scale per row  (absmax / 127, nearest)
///   kInt7  both operands rotated 7-bit codes (absmax / 63, nearest; gradients stochastic): no product clips
///   kRms4  forward: INT4 x INT4, both rotated, RMS scale; dX, dW: bit-split gradient x the forward's INT4 codes
///   kW4a8  as kRms4, but the forward's activations are bit-split codes (7.6 bits) instead of INT4
enum class Product { kFp32, kBf16, kInt8, kInt7, kRms4, kW4a8 };

/// True for the products that multiply INT4 weight codes.
constexpr bool uses_int4(Product product) { return product == Product::kRms4 || product == Product::kW4a8; }

/// True for the products in the rotated domain: they need a Hadamard block that divides the width.
constexpr bool is_rotated(Product product) { return uses_int4(product) || product == Product::kInt7; }

std::string_view product_name(Product product);

/// What w4a8 keeps of its activations for dW (spec 7.9). kInt4: the codes of rms4. kSr4: INT4 codes by stochastic rounding
/// with scale absmax / 7, unbiased. kX8: the bit-split codes that forward multiplied, a byte each.
enum class Keep { kInt4, kSr4, kX8 };

struct Recipe {
  Product forward = Product::kW4a8;
  Product dx = Product::kW4a8;
  Product dw = Product::kW4a8;
  std::int32_t hadamard_block = 0;  ///< 0: 128, or the largest power of two in 16..128 that divides the width
  Keep keep = Keep::kInt4;          ///< read where dw is kW4a8

  /// "fp32", "bf16", "int8", "int7", "rms4" or "w4a8"; throws Error that lists them and the nearest.
  static Recipe named(std::string_view name);
  /// Names that `named` takes.
  static const std::vector<std::string>& names();

  /// Replace one product by fp32, bf16 or int8 (spec 7.0); throws Error for anything else.
  void override_product(std::string_view which, std::string_view product);

  /// Set `keep` by its name: "int4", "sr4" or "x8"; throws Error for anything else.
  void set_keep(std::string_view name);

  /// "w4a8", or "w4a8, dw bf16" with overrides, "w4a8, keep x8".
  std::string describe() const;

  /// True when any product is rotated.
  bool rotates() const { return is_rotated(forward) || is_rotated(dx) || is_rotated(dw); }

  bool operator==(const Recipe&) const = default;
};

/// The Hadamard block for rows of `width` elements; throws Error when no power of two in 16..`wanted` divides it.
/// `wanted` 0 means 128.
std::int32_t hadamard_block_for(std::int64_t width, std::int32_t wanted);

}  // namespace tessera::quant
