#include "tensorpager/fit/plain.h"

#include <optional>
#include <vector>

#include "tensorpager/planning/caching_model.h"

namespace tensorpager::fit {

base::Bytes reserved_by_torch(const trace::Trace& trace) {
  constexpr int kSteps = 3;
  planning::CachingModel model;
  std::vector<std::optional<std::uint64_t>> addresses(trace.storages.size());
  const auto take = [&](trace::StorageId id) {
    const base::Bytes bytes = trace.storages[trace::index(id)].bytes;
    if (bytes.count() > 0) addresses[trace::index(id)] = model.take(bytes.count());
  };
  const auto give_back = [&](trace::StorageId id) {
    auto& address = addresses[trace::index(id)];
    if (address) model.give_back(*address);
    address.reset();
  };
  for (std::uint32_t i = 0; i < trace.storages.size(); ++i)
    if (trace.storages[i].entry) take(trace::StorageId(i));
  for (int step = 0; step < kSteps; ++step)
    for (const trace::Op& op : trace.ops) {
      for (const trace::StorageId id : op.births) take(id);
      if (op.temporary.count() > 0) model.give_back(model.take(op.temporary.count()));
      for (const trace::StorageId id : op.deaths) give_back(id);
    }
  return base::Bytes(model.reserved()) + trace.slab;
}

}  // namespace tensorpager::fit
