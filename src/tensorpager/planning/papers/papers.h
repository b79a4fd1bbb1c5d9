// The planners of published systems, as baselines. Each file says which decisions its paper makes and what differs
// here. Their plans are plans like others: validated, simulated and followed in the same way. They decide by rules that
// leave some budgets without a plan.
#pragma once

#include <memory>

#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {

std::unique_ptr<Planner> make_meng_planner();      // swaps the feature maps that are idle for longest
std::unique_ptr<Planner> make_vdnn_planner();      // offloads inputs of layers, and waits at each layer
std::unique_ptr<Planner> make_vdnnpp_planner();    // the same without the waits
std::unique_ptr<Planner> make_accudnn_planner();   // swaps what a model of the time says
std::unique_ptr<Planner> make_layrub_planner();    // swaps every feature map
std::unique_ptr<Planner> make_sqrt_planner();      // recomputes segments between checkpoints
std::unique_ptr<Planner> make_dtr_planner();       // drops by cost, size and staleness where memory runs out
std::unique_ptr<Planner> make_monet_planner();     // drops what an integer program says
std::unique_ptr<Planner> make_capuchin_planner();  // swaps what a swap hides, and recomputes the rest

}  // namespace tensorpager::planning
