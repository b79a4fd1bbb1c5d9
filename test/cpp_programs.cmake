# C++ programs that pytest starts, from build/cpp whatever the preset. Those of test/programs know libtorch and not us.
function(tensorpager_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tensorpager_own_target(${name})
  target_compile_options(${name} PRIVATE -Wno-conversion -O1 -g0)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_SOURCE_DIR}/build/cpp BUILD_RPATH "${TORCH_DIR}/lib")
endfunction()

tensorpager_test_program(cpp_programs
  SOURCES programs/cpp/main.cpp programs/cpp/digest.cpp programs/cpp/lstm.cpp programs/cpp/raw_pointers.cpp
    programs/cpp/resnet.cpp programs/cpp/threads.cpp programs/cpp/transformer.cpp
  LIBS torch_cpu)
if(TENSORPAGER_CUDA)
  # As find_package(Torch) links a user's program: libtorch_cuda is loaded with it, though no symbol is asked for by name.
  target_link_libraries(cpp_programs PRIVATE -Wl,--no-as-needed -ltorch_cuda -ltorch -Wl,--as-needed -Wl,--allow-shlib-undefined)
endif()
tensorpager_test_program(cpp_unaware SOURCES contract/cpp/unaware.cpp LIBS torch_cpu)
tensorpager_test_program(cpp_aware
  SOURCES contract/cpp/aware.cpp programs/cpp/digest.cpp programs/cpp/raw_pointers.cpp LIBS tensorpager_library)

# Without libtorch, or with what is none.
tensorpager_test_program(cpp_late SOURCES contract/cpp/late.cpp LIBS ${CMAKE_DL_LIBS})
tensorpager_test_program(cpp_torch_inside SOURCES contract/cpp/torch_inside.cpp)
foreach(version new old)
  add_library(torch_${version} SHARED contract/cpp/torch_${version}.cpp)
  set_target_properties(torch_${version} PROPERTIES
    OUTPUT_NAME torch_cpu LIBRARY_OUTPUT_DIRECTORY ${PROJECT_SOURCE_DIR}/build/cpp/${version})
endforeach()
set_target_properties(cpp_programs PROPERTIES UNITY_BUILD_BATCH_SIZE 4)

if(TENSORPAGER_CUDA)
  include(emulation.cmake)
endif()
