# libtensorpager_cuda.so: what a session needs of torch's CUDA half. Loaded by libtensorpager.so where a CUDA device is recorded.
add_library(tensorpager_cuda SHARED src/tensorpager/cuda/device_watch.cpp)
tensorpager_own_target(tensorpager_cuda)
set_target_properties(tensorpager_cuda PROPERTIES
  CXX_VISIBILITY_PRESET default INSTALL_RPATH "\$ORIGIN;\$ORIGIN/../../torch/lib;${TORCH_DIR}/lib")
target_link_libraries(tensorpager_cuda PRIVATE tensorpager_library torch_cuda)
install(TARGETS tensorpager_cuda LIBRARY DESTINATION ${package}/lib)
