#include "tessera/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tessera/base/testing/thread_backend.h"

namespace tessera {
namespace {

// How often each index of [begin, end) was visited, and by how many threads.
struct Visits {
  std::vector<std::atomic<int>> counts;
  std::set<std::thread::id> threads;
  std::mutex mutex;
};

void visit(std::int64_t begin, std::int64_t end, std::int64_t grain, Visits& visits) {
  visits.counts = std::vector<std::atomic<int>>(static_cast<std::size_t>(end - begin));
  parallel_for(begin, end, grain, [&](std::int64_t from, std::int64_t to) {
    EXPECT_LT(from, to);
    for (std::int64_t i = from; i < to; ++i) ++visits.counts[static_cast<std::size_t>(i - begin)];
    const std::lock_guard lock(visits.mutex);
    visits.threads.insert(std::this_thread::get_id());
  });
  for (const auto& count : visits.counts) EXPECT_EQ(count, 1);
}

TEST(Parallel, SerialByDefault) {
  Visits visits;
  visit(3, 103, 1, visits);
  EXPECT_EQ(visits.threads, std::set{std::this_thread::get_id()});
  EXPECT_EQ(num_threads(), 1);
}

TEST(Parallel, EmptyRangesCallNobody) {
  for (int threads : {1, 3}) {
    testing::ThreadBackend backend(threads);
    parallel_for(5, 5, 1, [](std::int64_t, std::int64_t) { FAIL(); });
  }
  parallel_for(5, 5, 1, [](std::int64_t, std::int64_t) { FAIL(); });
}

TEST(Parallel, ThreadsShareTheRange) {
  testing::ThreadBackend backend(4);
  EXPECT_EQ(num_threads(), 4);
  for (std::int64_t end : {1, 2, 3, 7, 100}) {
    Visits visits;
    visit(0, end, 1, visits);
  }
}

TEST(Parallel, TheBackendGoesWithTheScope) {
  { testing::ThreadBackend backend(2); }
  EXPECT_EQ(num_threads(), 1);
}

TEST(RangeFunction, RefersToTheCallableItWasMadeFrom) {
  std::int64_t sum = 0;
  auto add = [&](std::int64_t begin, std::int64_t end) { sum += end - begin; };
  const RangeFunction f = add;
  f(2, 5);
  f(0, 1);
  EXPECT_EQ(sum, 4);
}

}  // namespace
}  // namespace tessera
