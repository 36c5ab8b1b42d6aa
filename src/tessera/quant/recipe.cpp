#include "tessera/quant/recipe.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera::quant {
namespace {

struct NamedProduct {
  std::string_view name;
  Product product;
};
constexpr NamedProduct kProducts[] = {{"fp32", Product::kFp32}, {"bf16", Product::kBf16}, {"int8", Product::kInt8},
                                      {"int7", Product::kInt7}, {"rms4", Product::kRms4}, {"w4a8", Product::kW4a8}};

constexpr std::pair<std::string_view, Keep> kKeeps[] = {{"int4", Keep::kInt4}, {"sr4", Keep::kSr4}, {"x8", Keep::kX8}};

Product parse_product(std::string_view name, std::string_view subject) {
  for (const auto& [known, product] : kProducts)
    if (known == name) return product;
  fail("{} is '{}', expected fp32, bf16, int8, int7, rms4 or w4a8", subject, name);
}

}  // namespace

std::string_view product_name(Product product) {
  for (const auto& [name, known] : kProducts)
    if (known == product) return name;
  return "?";
}

Recipe Recipe::named(std::string_view name) {
  const Product product = parse_product(name, "recipe");
  return {product, product, product, 0, Keep::kInt4};
}

const std::vector<std::string>& Recipe::names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (const auto& entry : kProducts) made.emplace_back(entry.name);
    return made;
  }();
  return all;
}

void Recipe::override_product(std::string_view which, std::string_view product_text) {
  const Product product = parse_product(product_text, which);
  TESSERA_CHECK(!is_rotated(product), "recipe.{} is '{}', but one product can only be replaced by fp32, bf16 or int8",
                which, product_text);
  if (which == "forward") {
    forward = product;
  } else if (which == "dx") {
    dx = product;
  } else if (which == "dw") {
    dw = product;
  } else {
    fail("product is '{}', expected forward, dx or dw", which);
  }
}

void Recipe::set_keep(std::string_view name) {
  for (const auto& [known, value] : kKeeps) {
    if (known != name) continue;
    keep = value;
    return;
  }
  fail("w4a8-keep is '{}', expected int4, sr4 or x8", name);
}

std::string Recipe::describe() const {
  // The name is that of the products that were not replaced; all three replaced alike is that recipe itself.
  Product base = forward;
  for (Product product : {dx, dw})
    if (is_rotated(product)) base = product;
  std::string text(product_name(base));
  const std::pair<const char*, Product> parts[] = {{"forward", forward}, {"dx", dx}, {"dw", dw}};
  for (const auto& [label, product] : parts)
    if (product != base) text += fmt::format(", {} {}", label, product_name(product));
  for (const auto& [name, value] : kKeeps)
    if (dw == Product::kW4a8 && keep != Keep::kInt4 && keep == value) text += fmt::format(", keep {}", name);
  return text;
}

std::int32_t hadamard_block_for(std::int64_t width, std::int32_t wanted) {
  TESSERA_CHECK(wanted == 0 || (wanted >= 16 && wanted <= 256 && (wanted & (wanted - 1)) == 0),
                "Hadamard block is {}, expected a power of two in 16..256", wanted);
  for (std::int32_t block = wanted == 0 ? 128 : wanted; block >= 16; block /= 2)
    if (width % block == 0) return block;
  fail("width is {}, which no Hadamard block of 16 or more divides; rotated recipes need a multiple of 16", width);
}

}  // namespace tessera::quant
