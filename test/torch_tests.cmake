# Tests of single files that need torch, by GoogleTest. Their tests are listed when they run, as that loads torch.
function(tensorpager_torch_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tensorpager_own_target(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} torch_cpu GTest::gtest_main)
  set_target_properties(${name} PROPERTIES BUILD_RPATH "${TORCH_DIR}/lib")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS torch TIMEOUT ${TENSORPAGER_TEST_SECONDS} ENVIRONMENT OMP_NUM_THREADS=1)
endfunction()

tensorpager_torch_test(replay_torch_test SOURCES replay/captured_op_test.cpp replay/generator_state_test.cpp replay/recipes_test.cpp replay/stand_in_test.cpp LIBS tensorpager_replay)
