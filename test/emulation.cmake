# A pager that the tests break on purpose, to see that the emulated card shows it. It knows torch and CUDA, and nothing of ours.
set(mini_pager fence free_space paged_ops pager paging_allocator waits)
list(TRANSFORM mini_pager PREPEND emulation/)
list(TRANSFORM mini_pager APPEND .cpp)
add_library(tensorpager_mini_pager SHARED ${mini_pager})
tensorpager_own_target(tensorpager_mini_pager)
target_compile_options(tensorpager_mini_pager PRIVATE -O1 -g0)
target_link_libraries(tensorpager_mini_pager PRIVATE torch_cuda)
set_target_properties(tensorpager_mini_pager PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_SOURCE_DIR}/build/cpp BUILD_RPATH "${TORCH_DIR}/lib")
