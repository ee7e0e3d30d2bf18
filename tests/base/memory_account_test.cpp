// One bound for several parts: what is charged is counted, what was used longest ago goes, whichever
// cache has it, and what cannot go is not waited for.
#include "core/base/memory_account.h"

#include "core/base/error.h"
#include "tests/base/matchers.h"

#include <map>
#include <string>
#include <thread>
#include <utility>

namespace kvloupe {
namespace {

// Entries by name; those that somebody else holds stay.
class SmallCache final : public MemoryCache {
 public:
  SmallCache(MemoryAccountPtr account, MemoryPart part)
      : account_(std::move(account)), part_(part) {
    account_->add(*this);
  }
  ~SmallCache() { account_->remove(*this); }

  std::shared_ptr<MemoryCharge> keep(const std::string& name, std::uint64_t bytes) {
    auto charge = std::make_shared<MemoryCharge>(account_, part_, bytes);
    const std::lock_guard lock(mutex_);
    entries_[name] = {charge, account_->now()};
    return charge;
  }
  bool has(const std::string& name) const { return entries_.contains(name); }
  void use(const std::string& name) { entries_.at(name).second = account_->now(); }

  std::optional<std::uint64_t> oldest_use() const override {
    const std::lock_guard lock(mutex_);
    const auto found = oldest();
    if (found == entries_.end()) return std::nullopt;
    return found->second.second;
  }
  std::shared_ptr<const void> give_up_oldest() override {
    const std::lock_guard lock(mutex_);
    const auto found = oldest();
    if (found == entries_.end()) return nullptr;
    return entries_.extract(found).mapped().first;
  }

 private:
  using Entries = std::map<std::string, std::pair<std::shared_ptr<MemoryCharge>, std::uint64_t>>;
  Entries::const_iterator oldest() const {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it)
      if (it->second.first.use_count() == 1 &&
          (oldest == entries_.end() || it->second.second < oldest->second.second))
        oldest = it;
    return oldest;
  }

  MemoryAccountPtr account_;
  MemoryPart part_;
  mutable std::mutex mutex_;
  Entries entries_;
};

TEST(MemoryAccount, CountsWhatIsHeldAndNoLonger) {
  const auto account = std::make_shared<MemoryAccount>(100);
  {
    MemoryCharge load(account, MemoryPart::Load, 30);
    const MemoryCharge texture(account, MemoryPart::Textures, 20);
    EXPECT_EQ(account->held(), 50U);
    EXPECT_EQ(account->room(), 50U);
    load.resize(10);
    EXPECT_EQ(account->held(MemoryPart::Load), 10U);
    MemoryCharge other;
    other = std::move(load);
    EXPECT_EQ(account->held(MemoryPart::Load), 10U);
    other = MemoryCharge(account, MemoryPart::Load, 70);
    EXPECT_EQ(account->held(MemoryPart::Load), 70U);
  }
  EXPECT_EQ(account->held(), 0U);
}

TEST(MemoryAccount, TheOldestOfAllCachesGoesFirst) {
  const auto account = std::make_shared<MemoryAccount>(100);
  SmallCache layers(account, MemoryPart::Tensors), answers(account, MemoryPart::Answers);
  layers.keep("a", 30);
  answers.keep("b", 30);
  layers.keep("c", 30);
  layers.use("a");
  answers.keep("d", 30);
  EXPECT_FALSE(answers.has("b")) << "used longest ago";
  EXPECT_TRUE(layers.has("a"));
  EXPECT_EQ(account->held(), 90U);
  // A load and a texture leave less to the caches.
  const MemoryCharge load(account, MemoryPart::Load, 50);
  EXPECT_FALSE(layers.has("c"));
  EXPECT_FALSE(layers.has("a"));
  EXPECT_TRUE(answers.has("d"));
  EXPECT_EQ(account->held(), 80U);
}

TEST(MemoryAccount, WhatIsInUseStaysAndIsCounted) {
  const auto account = std::make_shared<MemoryAccount>(100);
  SmallCache cache(account, MemoryPart::Tensors);
  auto first = cache.keep("first", 60);
  auto second = cache.keep("second", 60);
  EXPECT_EQ(account->held(), 120U) << "both are in use";
  first.reset();
  const MemoryCharge one(account, MemoryPart::Answers, 1);
  EXPECT_FALSE(cache.has("first"));
  EXPECT_TRUE(cache.has("second"));
  EXPECT_EQ(account->held(), 61U);
}

TEST(MemoryAccount, ALoadWithoutRoomIsRefusedInASentence) {
  const auto account = std::make_shared<MemoryAccount>(100 << 20);
  SmallCache cache(account, MemoryPart::Tensors);
  cache.keep("layer", 90 << 20);
  const MemoryCharge load = charge_load(account, "A.h5", 60 << 20);
  EXPECT_FALSE(cache.has("layer")) << "a load takes its room from the caches";
  try {
    charge_load(account, "B.h5", 60 << 20);
    FAIL() << "two loads are more than the limit";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_THAT(error.what(), HasSubstr("B.h5 cannot be opened; its load takes 60.0 MiB of memory "
                                        "where 40.0 MiB of the limit of 100.0 MiB are left"));
  }
  EXPECT_EQ(account->held(MemoryPart::Load), 60U << 20);
}

TEST(MemoryAccount, ManyThreadsEndWithinTheLimit) {
  const auto account = std::make_shared<MemoryAccount>(1000);
  SmallCache a(account, MemoryPart::Tensors), b(account, MemoryPart::Answers);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i)
        (t % 2 == 0 ? a : b).keep(std::to_string(t) + " " + std::to_string(i), 7 + i % 50);
    });
  for (std::thread& thread : threads) thread.join();
  const MemoryCharge last(account, MemoryPart::Answers, 1);
  EXPECT_LE(account->held(), 1000U);
  EXPECT_GT(account->held(), 900U) << "no more goes than must";
}

}  // namespace
}  // namespace kvloupe
