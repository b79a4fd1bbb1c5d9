# Settings and helpers for our own targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# A user's compiler may know warnings that ours does not.
set(warnings_are_errors ON)
if(SKBUILD)
  set(warnings_are_errors OFF)
endif()
option(TENSORPAGER_WARNINGS_ARE_ERRORS "Stop at a warning of the compiler in our own code" ${warnings_are_errors})

# -DNDEBUG in every preset: torch's headers change the layout of RecordFunction without it. Our own checks have switches of their own.
add_compile_definitions(NDEBUG)

# Several sources of a target are compiled as one, for which a build from nothing takes half as long: no two of them may name a thing of
# their own alike. OFF compiles each by itself, which is quicker after a change of one.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "Compile several sources of a target as one")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

find_program(TENSORPAGER_CCACHE ccache)
if(TENSORPAGER_CCACHE)
  # Without this it keeps nothing that a precompiled header was used for.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${TENSORPAGER_CCACHE})
endif()

if(TENSORPAGER_SANITIZE)
  add_compile_options(-fsanitize=${TENSORPAGER_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TENSORPAGER_SANITIZE})
  if(TENSORPAGER_SANITIZE MATCHES undefined)
    # A check of each pointer doubles the time to compile; AddressSanitizer sees what is accessed through wrong ones.
    add_compile_options(-fno-sanitize=null,alignment,object-size,vptr)
  endif()
endif()

function(tensorpager_own_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow)
  if(TENSORPAGER_WARNINGS_ARE_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR TENSORPAGER_SANITIZE)
    target_compile_definitions(${target} PRIVATE TENSORPAGER_DEBUG_CHECKS)
  endif()
endfunction()

# tensorpager_module(NAME [TORCH] [FOLDER folder] SOURCES a.cpp ... [USES module ...]); TORCH if its sources include torch's headers.
function(tensorpager_module name)
  cmake_parse_arguments(ARG "TORCH" "FOLDER" "SOURCES;USES" ${ARGN})
  set(folder ${name})
  if(ARG_FOLDER)
    set(folder ${ARG_FOLDER})
  endif()
  list(TRANSFORM ARG_SOURCES PREPEND src/tensorpager/${folder}/)
  add_library(tensorpager_${name} STATIC ${ARG_SOURCES})
  tensorpager_own_target(tensorpager_${name})
  # libtensorpager.so is made of these and says what it exports (cmake/exports.map).
  set_target_properties(tensorpager_${name} PROPERTIES CXX_VISIBILITY_PRESET default)
  target_compile_options(tensorpager_${name} PRIVATE -fno-semantic-interposition)
  set(precompiling base)  # the module whose precompiled headers this one shares
  if(ARG_TORCH)
    set(precompiling intercept)
    target_link_libraries(tensorpager_${name} PUBLIC torch_cpu)
  endif()
  if(name STREQUAL ${precompiling})
    target_precompile_headers(tensorpager_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/tensorpager/${name}/precompiled.h)
  else()
    target_precompile_headers(tensorpager_${name} REUSE_FROM tensorpager_${precompiling})
  endif()
  list(TRANSFORM ARG_USES PREPEND tensorpager_)
  target_link_libraries(tensorpager_${name} PUBLIC ${ARG_USES})
endfunction()
