# bin/tensorpager.
find_package(CLI11 REQUIRED)
add_executable(tensorpager src/tensorpager/cli/main.cpp src/tensorpager/cli/run_command.cpp)
tensorpager_own_target(tensorpager)
target_link_libraries(tensorpager PRIVATE tensorpager_transfer CLI11::CLI11)
target_include_directories(tensorpager PRIVATE ${PROJECT_BINARY_DIR})
target_compile_definitions(tensorpager PRIVATE TENSORPAGER_VERSION="${PROJECT_VERSION}")
install(TARGETS tensorpager DESTINATION bin)
