#pragma once
// Arrays for tests of code that sanitizers cannot see: a read or write past the end hits an unmapped page.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace tessera::testing {

/// `size` zeroed elements whose last byte is the last one before an inaccessible page. The start is aligned as far as
/// the size allows: to 64 bytes if the array is a multiple of 64 bytes long.
template <typename T>
class GuardedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit GuardedArray(std::size_t size) : size_(size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t body = (size * sizeof(T) + page - 1) / page * page;
    mapped_ = body + 2 * page;
    void* base = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(base);
    if (body != 0 && mprotect(base_ + page, body, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    data_ = reinterpret_cast<T*>(base_ + page + body - size * sizeof(T));
  }
  ~GuardedArray() {
    if (base_ != nullptr) munmap(base_, mapped_);
  }
  GuardedArray(GuardedArray&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), mapped_(other.mapped_), data_(other.data_), size_(other.size_) {}
  GuardedArray& operator=(GuardedArray&&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t mapped_ = 0;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tessera::testing
