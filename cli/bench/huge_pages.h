#pragma once
// Peers reach their best speed only with malloc on huge pages, which glibc decides before main.

namespace tessera::cli {

/// True when GLIBC_TUNABLES asks malloc for transparent huge pages.
bool huge_pages_enabled();

/// Start this program again with glibc.malloc.hugetlb=1 added to GLIBC_TUNABLES, unless it is mentioned there already.
/// Returns only when there is nothing to do; throws Error when the program cannot be started again.
void restart_with_huge_pages();

}  // namespace tessera::cli
