#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::fuzz_token_file(std::as_bytes(std::span(data, size)));
  return 0;
}
