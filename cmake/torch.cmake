# Finds the torch that belongs to the Python of the build, without its CMake package (which wants CUDA and more than we use).
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
if(NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "the headers of ${Python_EXECUTABLE} are missing; on Debian: apt-get install python3-dev (as root), or run make build, which unpacks them without root")
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/find_torch.py
  OUTPUT_VARIABLE found_torch OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE no_torch)
if(no_torch)
  message(FATAL_ERROR "no torch to build against; see above")
endif()
string(REPLACE "\n" ";" found_torch "${found_torch}")
list(GET found_torch 0 TORCH_DIR)
list(GET found_torch 1 TORCH_VERSION)
message(STATUS "torch ${TORCH_VERSION} in ${TORCH_DIR}")

add_library(torch_cpu INTERFACE)
target_include_directories(torch_cpu SYSTEM INTERFACE ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
set_target_properties(torch_cpu PROPERTIES INTERFACE_LINK_LIBRARIES "-L${TORCH_DIR}/lib;-ltorch_cpu;-lc10")

# The CUDA half of torch, and the headers of the CUDA runtime and of cuDNN, which its wheels bring. A torch without CUDA has neither,
# and the emulated card is then not built.
set(TENSORPAGER_CUDA OFF)
find_program(NVCC nvcc PATHS /usr/local/cuda/bin)
get_filename_component(nvcc_directory "${NVCC}" DIRECTORY)
# Its crt/ is in a wheel of its own, which is not always there.
find_path(CUDA_RUNTIME_INCLUDE crt/host_defines.h PATHS ${TORCH_DIR}/../nvidia/cu13/include ${TORCH_DIR}/../nvidia/cuda_runtime/include ${nvcc_directory}/../include /usr/local/cuda/include NO_DEFAULT_PATH)
find_path(CUDNN_INCLUDE cudnn.h PATHS ${TORCH_DIR}/../nvidia/cudnn/include /usr/include /usr/local/cuda/include NO_DEFAULT_PATH)
if(EXISTS ${TORCH_DIR}/lib/libtorch_cuda.so AND CUDA_RUNTIME_INCLUDE AND CUDNN_INCLUDE)
  set(TENSORPAGER_CUDA ON)
  add_library(torch_cuda INTERFACE)
  target_include_directories(torch_cuda SYSTEM INTERFACE ${CUDA_RUNTIME_INCLUDE} ${CUDNN_INCLUDE})
  set_target_properties(torch_cuda PROPERTIES INTERFACE_LINK_LIBRARIES "torch_cpu;-ltorch_cuda;-lc10_cuda;-Wl,--allow-shlib-undefined")
endif()

tensorpager_module(intercept TORCH
  SOURCES call_record.cpp collectives.cpp compiled_call.cpp device_storages.cpp fallthrough.cpp foreign.cpp frame.cpp hot_ops.cpp interceptor.cpp list_ops.cpp op_info.cpp python_dispatch.cpp tensors.cpp
  USES arena pager roofline)
tensorpager_module(roofline TORCH SOURCES op_work.cpp USES base)
tensorpager_module(memory TORCH SOURCES host_memory.cpp torch_allocator.cpp torch_storages.cpp USES memory_stable transfer)
tensorpager_module(replay TORCH
  SOURCES ambient.cpp captured_op.cpp capturing.cpp generator_state.cpp leaf.cpp op_rules.cpp rebuilding.cpp recipes.cpp replayer.cpp rerun.cpp scratch_allocator.cpp stand_in.cpp storages.cpp verification.cpp verifier.cpp
  USES base arena pager intercept)
tensorpager_module(dry TORCH
  SOURCES attention_shapes.cpp call.cpp card.cpp convolution_shapes.cpp draws.cpp dry.cpp first_run.cpp op_traits.cpp outcome.cpp recurrent_shapes.cpp shape_table.cpp shapes.cpp signature.cpp skipper.cpp stand_ins.cpp
  USES base)
tensorpager_module(session TORCH SOURCES accelerator.cpp dry_run.cpp session.cpp statistics_file.cpp system_calls.cpp trace_file.cpp USES dry intercept memory replay guide follow plan trace transfer)
target_link_libraries(tensorpager_session PUBLIC tensorpager_dry PRIVATE nlohmann_json::nlohmann_json)
