#include "tessera/kernels/igemm/jit/generator.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include "tessera/base/check.h"

namespace tessera::kernels::jit {
namespace {

constexpr std::size_t kMaxCodeBytes = 32 * 1024;

void dump_code(const std::string& name, const std::uint8_t* code, std::size_t bytes) {
  const char* folder = std::getenv("TESSERA_JIT_DUMP");
  if (folder == nullptr || *folder == '\0') return;
  const std::string path = fmt::format("{}/{}.bin", folder, name);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(code), static_cast<std::streamsize>(bytes));
  TESSERA_CHECK(file.good(), "TESSERA_JIT_DUMP is '{}', but {} cannot be written", folder, path);
}

}  // namespace

Generator::Generator(std::string name)
    : Xbyak::CodeGenerator(kMaxCodeBytes, Xbyak::DontSetProtectRWE), name_(std::move(name)) {}

void Generator::freeze() {
  ready();
  setProtectModeRE();
  dump_code(name_, getCode(), getSize());
}

void Generator::enter() {
  push(rbx);
  push(rbp);
  push(r12);
  push(r13);
}

void Generator::leave() {
  vzeroupper();
  pop(r13);
  pop(r12);
  pop(rbp);
  pop(rbx);
  ret();
}

}  // namespace tessera::kernels::jit
