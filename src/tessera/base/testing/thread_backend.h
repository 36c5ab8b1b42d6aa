#pragma once
// A parallel backend of plain threads, for tests that nothing depends on the thread count.
#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "tessera/base/parallel.h"

namespace tessera::testing {

/// While one lives, parallel_for cuts every range into up to `threads` uneven pieces and runs each on a thread of its
/// own. Afterwards the backend is the serial one. One at a time.
class ThreadBackend {
 public:
  explicit ThreadBackend(int threads) {
    count() = threads;
    set_parallel_backend({run, [] { return count(); }});
  }
  ~ThreadBackend() {
    set_parallel_backend({[](std::int64_t begin, std::int64_t end, std::int64_t, RangeFunction f) {
                            if (begin < end) f(begin, end);
                          },
                          [] { return 1; }});
  }
  ThreadBackend(const ThreadBackend&) = delete;
  ThreadBackend& operator=(const ThreadBackend&) = delete;

 private:
  static int& count() {
    static int threads = 1;
    return threads;
  }

  static void run(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction f) {
    const std::int64_t most = std::max<std::int64_t>(1, (end - begin) / std::max<std::int64_t>(1, grain));
    const std::int64_t pieces = std::min<std::int64_t>(count(), most);
    std::vector<std::thread> threads;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t from = begin + (end - begin) * piece / pieces;
      const std::int64_t to = begin + (end - begin) * (piece + 1) / pieces;
      if (from < to) threads.emplace_back([=] { f(from, to); });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace tessera::testing
