// Random ops whose results are not needed, but whose draws the generator must have made: later ones, as of the lengths
// of sequences, are then those of the real run.
#pragma once

#include "tensorpager/dry/call.h"

namespace tensorpager::dry {

/// Draws what the call would into scratch memory, piece by piece, without a touch of the tensor that it would fill.
/// Returns false, with nothing drawn, if the op is not one that fills a contiguous tensor element by element.
bool draw_aside(const Call& call);

}  // namespace tensorpager::dry
