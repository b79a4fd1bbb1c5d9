# Finds torch in the virtual environment that the build makes, without its CMake package (which wants CUDA and more than we use).
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
  OUTPUT_VARIABLE TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS ${TORCH_DIR}/version.py torch_version_line REGEX "^__version__ = ")
string(REGEX REPLACE "^__version__ = '([^']*)'.*" "\\1" TORCH_VERSION "${torch_version_line}")
message(STATUS "torch ${TORCH_VERSION} in ${TORCH_DIR}")

add_library(torch_cpu INTERFACE)
target_include_directories(torch_cpu SYSTEM INTERFACE ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
set_target_properties(torch_cpu PROPERTIES INTERFACE_LINK_LIBRARIES "-L${TORCH_DIR}/lib;-ltorch_cpu;-lc10")

tensorpager_module(memory SOURCES torch_allocator.cpp USES memory_stable)
tensorpager_module(intercept
  SOURCES collectives.cpp fallthrough.cpp foreign.cpp frame.cpp hot_ops.cpp interceptor.cpp list_ops.cpp op_info.cpp python_dispatch.cpp tensors.cpp
  USES arena pager)
tensorpager_module(session SOURCES session.cpp USES intercept memory transfer)
target_link_libraries(tensorpager_memory PUBLIC torch_cpu)
target_link_libraries(tensorpager_intercept PUBLIC torch_cpu)
target_precompile_headers(tensorpager_intercept PRIVATE src/tensorpager/intercept/torch_headers.h)
