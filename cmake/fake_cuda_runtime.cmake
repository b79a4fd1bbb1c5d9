# libtensorpager_fake_cuda.so: the CUDA runtime, cuDNN and cuBLAS calls that torch makes, over the fake card; preloaded. And a driver
# library for it. Built where torch brings CUDA's headers.
set(fake_cuda_directory ${PROJECT_SOURCE_DIR}/src/tensorpager/fake_cuda)
set(calls copies cublas cudnn devices errors events launches memory streams unsupported)
list(TRANSFORM calls REPLACE "(.+)" "${fake_cuda_directory}/\\1_api.cpp")
add_library(tensorpager_fake_cuda_runtime SHARED ${calls} $<TARGET_OBJECTS:tensorpager_fake_cuda>)
tensorpager_own_target(tensorpager_fake_cuda_runtime)
target_include_directories(tensorpager_fake_cuda_runtime SYSTEM PRIVATE ${CUDA_RUNTIME_INCLUDE} ${CUDNN_INCLUDE})
target_link_libraries(tensorpager_fake_cuda_runtime PRIVATE tensorpager_base)
# -z nodelete: a process's streams and threads outlive any dlclose.
target_link_options(tensorpager_fake_cuda_runtime PRIVATE
  -Wl,--version-script=${fake_cuda_directory}/exports.map -Wl,-Bsymbolic-functions -Wl,-z,defs -Wl,-z,nodelete)
set_target_properties(tensorpager_fake_cuda_runtime PROPERTIES
  OUTPUT_NAME tensorpager_fake_cuda LINK_DEPENDS ${fake_cuda_directory}/exports.map)

# Has the driver's name, so it has a folder of its own: only who is given its path finds it.
file(STRINGS ${CUDA_RUNTIME_INCLUDE}/cuda_runtime_api.h cuda_version REGEX "^#define CUDART_VERSION +[0-9]+")
string(REGEX REPLACE "^#define CUDART_VERSION +([0-9]+).*" "\\1" cuda_version "${cuda_version}")
add_library(tensorpager_fake_cuda_driver SHARED ${fake_cuda_directory}/driver_library.cpp)
tensorpager_own_target(tensorpager_fake_cuda_driver)
target_compile_definitions(tensorpager_fake_cuda_driver PRIVATE TENSORPAGER_CUDA_VERSION=${cuda_version})
set_target_properties(tensorpager_fake_cuda_driver PROPERTIES
  OUTPUT_NAME cuda SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake_cuda NO_SONAME OFF)

install(TARGETS tensorpager_fake_cuda_runtime LIBRARY DESTINATION ${package}/lib)
install(TARGETS tensorpager_fake_cuda_driver LIBRARY DESTINATION ${package}/lib/fake_cuda NAMELINK_SKIP)
add_dependencies(tensorpager_fake_cuda_runtime tensorpager_fake_cuda_driver)

if(TENSORPAGER_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  enable_testing()
  add_executable(fake_cuda_api_test test/fake_cuda/api_test.cpp)
  tensorpager_own_target(fake_cuda_api_test)
  target_include_directories(fake_cuda_api_test SYSTEM PRIVATE ${CUDA_RUNTIME_INCLUDE})
  target_link_libraries(fake_cuda_api_test PRIVATE tensorpager_fake_cuda_runtime GTest::gmock GTest::gtest_main)
  gtest_discover_tests(fake_cuda_api_test NO_PRETTY_VALUES PROPERTIES LABELS unit TIMEOUT 60)
endif()
