// A plan of three ops with one page-out: the activation leaves after op 0, and its page-in at op 2 waits for that.
#pragma once

#include "sized_block.h"

namespace tensorpager::follow {

constexpr StorageId kActivation{1};

inline Plan small_plan() {
  using namespace base;
  return {.budget = 1_MiB,
          .ops = 3,
          .rows = {{.storage = kWeight, .bytes = 64_KiB, .end = 3, .fill = Fill::kBoundary, .leave = Leave::kBoundary},
                   {.storage = kActivation, .bytes = 20_KiB, .offset = 65536, .end = 1, .leave = Leave::kPageOut},
                   {.storage = kActivation,
                    .bytes = 20_KiB,
                    .offset = 65536,
                    .begin = 2,
                    .need = 2,
                    .end = 3,
                    .wait = 1,
                    .fill = Fill::kPageIn}}};
}

}  // namespace tensorpager::follow
