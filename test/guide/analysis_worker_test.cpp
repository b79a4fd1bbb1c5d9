#include "tensorpager/guide/analysis_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>

namespace tensorpager::guide {
namespace {

/// A worker whose analyses end when the test says so.
class AnalysisWorkerTest : public testing::Test {
 protected:
  std::binary_semaphore begun_{0}, may_end_{0}, finished_{0};
  std::atomic<int> analyses_{0}, ends_{0};
  std::thread::id thread_;
  std::optional<AnalysisWorker> worker_{std::in_place,
                                        [this] {
                                          ++analyses_;
                                          thread_ = std::this_thread::get_id();
                                          begun_.release();
                                          may_end_.acquire();
                                        },
                                        [this] {
                                          ++ends_;
                                          finished_.release();
                                        }};
};

TEST_F(AnalysisWorkerTest, AnalysesOnAThreadOfItsOwnOncePerRequest) {
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(worker_->request());
    begun_.acquire();
    EXPECT_NE(thread_, std::this_thread::get_id());
    EXPECT_EQ(ends_, i - 1);
    may_end_.release();
    finished_.acquire();
    EXPECT_EQ(ends_, i);
    EXPECT_EQ(analyses_, i);
  }
}

TEST_F(AnalysisWorkerTest, IgnoresRequestsDuringAnAnalysis) {
  ASSERT_TRUE(worker_->request());
  begun_.acquire();
  EXPECT_TRUE(worker_->request());
  may_end_.release();
  finished_.acquire();
  worker_.reset();  // waits for the thread
  EXPECT_EQ(analyses_, 1);
}

// The program has stopped while the thread analyses: who is told then may be gone.
TEST_F(AnalysisWorkerTest, DoesNotReportAnAnalysisThatEndsAfterTheStop) {
  ASSERT_TRUE(worker_->request());
  begun_.acquire();
  worker_->stop();
  may_end_.release();
  worker_.reset();
  EXPECT_EQ(analyses_, 1);
  EXPECT_EQ(ends_, 0);
}

TEST_F(AnalysisWorkerTest, AcceptsNoRequestAfterTheStop) {
  worker_->stop();
  EXPECT_TRUE(worker_->request());
  worker_.reset();
  EXPECT_EQ(analyses_, 0);
}

}  // namespace
}  // namespace tensorpager::guide
