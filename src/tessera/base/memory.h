#pragma once
// The C library's memory allocator, as a program that allocates the same large tensors every step wants it.

namespace tessera {

/// Keep freed memory in the process. By default glibc returns every freed block of 32 MiB or more to the kernel, which
/// clears the next one page by page: a tenth of a training step. For programs, not libraries: it changes the whole
/// process, and must run before the first large allocation. Does nothing where malloc is not glibc's.
void keep_freed_memory();

}  // namespace tessera
