#pragma once
// Owning buffer for kernels: aligned to 64 bytes, large ones to 2 MiB and on transparent huge pages.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace tessera {

/// Allocate at least `bytes` bytes (contents undefined); throws std::bad_alloc. Free with aligned_free.
void* aligned_allocate(std::size_t bytes);
void aligned_free(void* data) noexcept;

/// Ask the kernel for huge pages under a large range; a hint that may be ignored.
void advise_huge_pages(void* data, std::size_t bytes) noexcept;

/// Fixed-size array of trivial values, contents undefined until written.
template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size)
      : data_(size ? static_cast<T*>(aligned_allocate(size * sizeof(T))) : nullptr), size_(size) {}

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  struct Free {
    void operator()(T* data) const noexcept { aligned_free(data); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace tessera
