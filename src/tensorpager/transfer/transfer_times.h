// How long transfers of one direction took, and a least-squares line through that: a latency and a rate. The newest
// count most: under a plan both directions and compute share what each has for itself on demand.
#pragma once

#include "tensorpager/base/bytes.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::transfer {

class TransferTimes {
 public:
  void add(base::Bytes bytes, double seconds) {
    const auto size = static_cast<double>(bytes.count());
    if (count_ >= kRemembered)
      for (double* const sum : {&count_, &bytes_, &seconds_, &squares_, &products_}) *sum /= 2;
    count_ += 1;
    bytes_ += size;
    seconds_ += seconds;
    squares_ += size * size;
    products_ += size * seconds;
  }

  /// Attributes all time to the rate if sizes say nothing about the latency: if all are similar, or larger ones were
  /// not slower.
  Queues::Rate fit() const {
    if (seconds_ <= 0) return {};
    const double spread = count_ * squares_ - bytes_ * bytes_;
    const double slope =
        spread > kLeastSpread * bytes_ * bytes_ ? (count_ * products_ - bytes_ * seconds_) / spread : 0;
    const double latency = (seconds_ - slope * bytes_) / count_;
    if (slope <= 0 || latency <= 0) return {.bytes_per_second = bytes_ / seconds_};
    return {.bytes_per_second = 1 / slope, .latency = latency};
  }

 private:
  static constexpr double kLeastSpread = 0.01;  // variance of sizes, over their mean squared

  static constexpr double kRemembered = 256;  // transfers; with more, all so far count half

  double count_ = 0;
  double bytes_ = 0;
  double seconds_ = 0;
  double squares_ = 0;
  double products_ = 0;
};

}  // namespace tensorpager::transfer
