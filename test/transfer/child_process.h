// Real forks for tests: a child that runs a body and reports its failures, and a place where parent and child meet.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "thread_sanitizer.h"

namespace tensorpager::transfer {

/// Forks when made. Expectations that fail in the child fail the child, and with it `join` in the parent.
class ChildProcess {
 public:
  template <class Body>
  explicit ChildProcess(Body body) {
    std::fflush(nullptr);
    id_ = ::fork();
    if (id_ != 0) return;
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  void join() {
    int status = -1;
    ASSERT_EQ(::waitpid(id_, &status, 0), id_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status of the child: " << status;
  }

 private:
  pid_t id_;
};

enum class Side { kParent = 0, kChild = 1 };

/// Made before the fork. Neither side leaves `meet` before the other has come, or has died.
class MeetingPoint {
 public:
  MeetingPoint() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0); }
  ~MeetingPoint() {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;

  void meet(Side side) {
    int& other = ends_[1 - static_cast<int>(side)];
    if (other >= 0) ::close(other);
    other = -1;
    char token = 'x';
    const int own = ends_[static_cast<int>(side)];
    EXPECT_EQ(::send(own, &token, 1, MSG_NOSIGNAL), 1);
    EXPECT_EQ(::recv(own, &token, 1, 0), 1);
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace tensorpager::transfer
