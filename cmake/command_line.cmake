# bin/tensorpager.
set(command_sources
  ask_python.cpp doctor_command.cpp dry_program.cpp emulate.cpp estimate_command.cpp estimate_screen.cpp fit_command.cpp fit_picture.cpp fit_run.cpp fit_screen.cpp machine_command.cpp main.cpp options_command.cpp plan_command.cpp planning.cpp program_template.cpp python_package.cpp report_command.cpp run_command.cpp simulate_command.cpp sized_runs.cpp
  start_program.cpp trace_command.cpp
  validate_command.cpp verb_options.cpp)
list(TRANSFORM command_sources PREPEND src/tensorpager/cli/)
add_executable(tensorpager ${command_sources})
tensorpager_own_target(tensorpager)
# It parses a command line and calls the libraries; nothing of its own takes time.
target_compile_options(tensorpager PRIVATE -O1)
target_link_libraries(tensorpager PRIVATE tensorpager_cli_checks tensorpager_fit tensorpager_report tensorpager_sim CLI11::CLI11 nlohmann_json::nlohmann_json)
target_include_directories(tensorpager PRIVATE ${PROJECT_BINARY_DIR})
target_compile_definitions(tensorpager PRIVATE TENSORPAGER_VERSION="${PROJECT_VERSION}")
# In a wheel, scikit-build-core says where commands go.
set(command_directory bin)
if(SKBUILD)
  set(command_directory ${SKBUILD_SCRIPTS_DIR})
endif()
install(TARGETS tensorpager DESTINATION ${command_directory})
