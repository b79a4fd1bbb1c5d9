#include "tensorpager/emulation/torch_internals.h"

#include <set>

namespace tensorpager::emulation {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

DispatchKeySet excluded() {
  return c10::default_excluded_set | c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
         DispatchKeySet({DispatchKey::ADInplaceOrView, DispatchKey::Functionalize, DispatchKey::Python,
                         DispatchKey::PythonTLSSnapshot, DispatchKey::PythonDispatcher,
                         DispatchKey::TESTING_ONLY_GenericMode, DispatchKey::Fake});
}

}  // namespace

BackendOnly::BackendOnly() : keys_(c10::default_included_set.remove(DispatchKey::ADInplaceOrView), excluded()) {}

std::string_view family_of(std::string_view name) {
  name = name.substr(0, name.find('.'));
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

bool is_host_code(const std::string& name) {
  static const auto* const names = new std::set<std::string>{
      "empty.memory_format",
      "empty_strided",
      "resize_",
      "set_",
      "set_.source_Storage",
      "set_.source_Storage_storage_offset",
      "set_.source_Tensor",
      "is_set_to",
      "record_stream",
      "is_pinned",
      "_pin_memory",
      "_local_scalar_dense",
      "_efficientzerotensor",
      "_fused_sdp_choice",
      "_cudnn_rnn_flatten_weight",
      "_use_miopen_ctc_loss",
      "_use_miopen_ctc_loss.Tensor",
      "_to_sparse",
      "_to_sparse.sparse_dim",
      "_to_sparse_csr",
      "_to_sparse_csc",
      "_to_sparse_bsr",
      "_to_sparse_bsc",
  };
  return names->count(name) > 0;
}

bool is_emulated_whole(const std::string& name) {
  return name == "convolution" || name == "convolution_backward" || name == "copy_";
}

bool has_wrong_shapes(const std::string& name) {
  const std::string_view of = family_of(name);
  return of == "_embedding_bag" || of == "_embedding_bag_forward_only" || of == "_native_batch_norm_legit";
}

bool may_add_bias(const std::string& name) {
  const std::string_view of = family_of(name);
  return of == "addmm" || of == "_addmm_activation";
}

bool mixes_devices(const std::string& name) {
  const std::string_view of = family_of(name);
  return of == "index" || of == "index_put" || of == "_index_put_impl" || of == "_unsafe_index" || of == "copy" ||
         of.starts_with("_foreach_");
}

}  // namespace tensorpager::emulation
