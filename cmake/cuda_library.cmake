# libtensorpager_cuda.so: what a session needs of torch's CUDA half. Loaded by libtensorpager.so where a CUDA device is paged or recorded.
set(sources blas_workspaces.cpp card_memory.cpp cuda_streams.cpp device_watch.cpp paging_allocator.cpp)
list(TRANSFORM sources PREPEND src/tensorpager/cuda/)
add_library(tensorpager_cuda SHARED ${sources})
tensorpager_own_target(tensorpager_cuda)
set_target_properties(tensorpager_cuda PROPERTIES
  CXX_VISIBILITY_PRESET default INSTALL_RPATH "\$ORIGIN;\$ORIGIN/../../torch/lib;${TORCH_DIR}/lib")
target_link_libraries(tensorpager_cuda PRIVATE tensorpager_library torch_cuda)
target_link_options(tensorpager_cuda PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/c_exports.map)
set_target_properties(tensorpager_cuda PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/c_exports.map)
install(TARGETS tensorpager_cuda LIBRARY DESTINATION ${package}/lib)
