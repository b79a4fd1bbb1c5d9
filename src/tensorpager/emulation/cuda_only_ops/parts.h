// The register functions of ops.h whose kind has more than one file call these.
#pragma once

#include "tensorpager/emulation/cuda_only_ops/ops.h"

namespace tensorpager::emulation {

void register_sync_batch_norm(OwnOps& ops);   // from register_normalization
void register_packed_attention(OwnOps& ops);  // from register_attention
void register_recurrent_cells(OwnOps& ops);   // from register_recurrent
void register_matrix_products(OwnOps& ops);   // from register_convolution: contractions, too

}  // namespace tensorpager::emulation
