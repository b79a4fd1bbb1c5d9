# libtensorpager_emulation.so: the torch side of the emulated card. Loaded after torch, where TENSORPAGER_EMULATE is set.
set(emulation_directory ${PROJECT_SOURCE_DIR}/src/tensorpager/emulation)
set(emulation copies install late_call late_kernels late_ops op_traits random shapes statistics tensors torch_internals waited_ops)
set(cuda_only_ops attention attention_math convolution cpu_rnn dropout layouts losses matrix_products normalization packed_attention
  recurrent recurrent_cells sampling sync_batch_norm)
list(TRANSFORM cuda_only_ops PREPEND cuda_only_ops/)
list(TRANSFORM emulation PREPEND ${emulation_directory}/)
list(TRANSFORM cuda_only_ops PREPEND ${emulation_directory}/)
list(TRANSFORM emulation APPEND .cpp)
list(TRANSFORM cuda_only_ops APPEND .cpp)
add_library(tensorpager_emulation SHARED ${emulation} ${cuda_only_ops})
tensorpager_own_target(tensorpager_emulation)
# What it exports has C linkage and says so itself.
set_target_properties(tensorpager_emulation PROPERTIES
  OUTPUT_NAME tensorpager_emulation INSTALL_RPATH "\$ORIGIN;\$ORIGIN/../../torch/lib;${TORCH_DIR}/lib")
target_link_libraries(tensorpager_emulation PRIVATE tensorpager_roofline tensorpager_fake_cuda_runtime torch_cuda)
target_link_options(tensorpager_emulation PRIVATE -Wl,-Bsymbolic -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/c_exports.map)
set_target_properties(tensorpager_emulation PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/c_exports.map)
# The time is in torch's headers when it is built, and in torch's kernels when it runs.
target_compile_options(tensorpager_emulation PRIVATE -O1 -g1)
target_precompile_headers(tensorpager_emulation PRIVATE <ATen/ATen.h> <ATen/core/dispatch/Dispatcher.h> <torch/library.h>)
install(TARGETS tensorpager_emulation LIBRARY DESTINATION ${package}/lib)
