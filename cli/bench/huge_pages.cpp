#include "bench/huge_pages.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"

namespace tessera::cli {
namespace {

constexpr const char* kVariable = "GLIBC_TUNABLES";
constexpr std::string_view kTunable = "glibc.malloc.hugetlb";

std::string tunables() {
  const char* text = std::getenv(kVariable);
  return text == nullptr ? "" : text;
}

// The arguments of this process, as the kernel keeps them.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < all.size(); begin = all.find('\0', begin) + 1)
    arguments.emplace_back(all.c_str() + begin);
  return arguments;
}

}  // namespace

bool huge_pages_enabled() { return tunables().find(std::string(kTunable) + "=1") != std::string::npos; }

void restart_with_huge_pages() {
  const std::string now = tunables();
  if (now.find(kTunable) != std::string::npos) return;
  const std::string wanted = (now.empty() ? "" : now + ":") + std::string(kTunable) + "=1";
  TESSERA_CHECK(setenv(kVariable, wanted.c_str(), 1) == 0, "cannot set {}: {}", kVariable, std::strerror(errno));
  std::vector<std::string> arguments = own_arguments();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());
  fail("cannot start /proc/self/exe again with {}={}: {}; set it yourself and repeat", kVariable, wanted,
       std::strerror(errno));
}

}  // namespace tessera::cli
