# libtensorpager.so: everything that needs torch, once in a process; the Python extension, C++ programs and the preload
# library use this one. Beside it the preload library, the public header and the CMake package. All are installed in the
# Python package, as torch's are in its: lib, include and cmake.
set(package ${package_directory})
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" torch_minor ${TORCH_VERSION})
set(torch_minor "${CMAKE_MATCH_1},${CMAKE_MATCH_2}")

set(modules base trace machine plan planning arena device transfer pager follow guide memory_stable memory roofline intercept replay dry session_exit session)
list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_OBJECTS:tensorpager_\\1>" OUTPUT_VARIABLE objects)
add_library(tensorpager_library SHARED
  src/tensorpager/api/guard.cpp src/tensorpager/api/report.cpp src/tensorpager/api/run_session.cpp
  src/tensorpager/api/session.cpp src/tensorpager/preload/system_calls.cpp ${objects})
tensorpager_own_target(tensorpager_library)
set_target_properties(tensorpager_library PROPERTIES
  OUTPUT_NAME tensorpager EXPORT_NAME Tensorpager CXX_VISIBILITY_PRESET default
  INSTALL_RPATH "\$ORIGIN/../../torch/lib;${TORCH_DIR}/lib" LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_link_libraries(tensorpager_library PUBLIC $<BUILD_INTERFACE:torch_cpu>)
# Bound inside the library: no other may put its functions before ours, and calls need no table.
target_link_options(tensorpager_library PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map -Wl,-Bsymbolic -Wl,-z,defs)

# Loaded into every program: the C library is all that it needs.
add_library(tensorpager_preload SHARED src/tensorpager/preload/preload.cpp src/tensorpager/preload/system_calls.cpp)
tensorpager_own_target(tensorpager_preload)
target_compile_definitions(tensorpager_preload PRIVATE
  TENSORPAGER_LIBRARY="libtensorpager.so" TENSORPAGER_TORCH_VERSION="${TORCH_VERSION}"
  TENSORPAGER_TORCH_MINOR=${torch_minor})
target_link_options(tensorpager_preload PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map -Wl,--as-needed -Wl,-z,defs)
set_source_files_properties(src/tensorpager/preload/preload.cpp src/tensorpager/preload/system_calls.cpp
  PROPERTIES COMPILE_OPTIONS "-fvisibility=default;-fno-exceptions;-fno-rtti;-fno-threadsafe-statics")

install(TARGETS tensorpager_library EXPORT TensorpagerTargets LIBRARY DESTINATION ${package}/lib
  INCLUDES DESTINATION ${package}/include)
install(TARGETS tensorpager_preload LIBRARY DESTINATION ${package}/lib)
install(FILES src/tensorpager/api/tensorpager.h DESTINATION ${package}/include/tensorpager)
install(FILES src/tensorpager/pager/statistics.h DESTINATION ${package}/include/tensorpager/pager)
install(EXPORT TensorpagerTargets NAMESPACE Tensorpager:: DESTINATION ${package}/cmake)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/TensorpagerConfig.cmake.in generated/TensorpagerConfig.cmake
  INSTALL_DESTINATION ${package}/cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/TensorpagerConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/TensorpagerConfig.cmake
  ${PROJECT_BINARY_DIR}/generated/TensorpagerConfigVersion.cmake DESTINATION ${package}/cmake)
