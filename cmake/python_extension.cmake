# The Python package: sources of python/tensorpager with the extension _core beside them, in the virtual environment's site-packages.
Python_add_library(tensorpager_core MODULE src/tensorpager/session/python_module.cpp)
set_target_properties(tensorpager_core PROPERTIES OUTPUT_NAME _core INSTALL_RPATH "\$ORIGIN/lib;\$ORIGIN/../torch/lib")
tensorpager_own_target(tensorpager_core)
target_link_libraries(tensorpager_core PRIVATE tensorpager_library)

set(TENSORPAGER_SITE lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/site-packages)
configure_file(cmake/build_info.py.in generated/_build_info.py @ONLY)
configure_file(cmake/install_layout.h.in generated/install_layout.h @ONLY)
install(TARGETS tensorpager_core DESTINATION ${TENSORPAGER_SITE}/tensorpager)
install(DIRECTORY python/tensorpager/ DESTINATION ${TENSORPAGER_SITE}/tensorpager FILES_MATCHING PATTERN "*.py")
install(FILES ${PROJECT_BINARY_DIR}/generated/_build_info.py DESTINATION ${TENSORPAGER_SITE}/tensorpager)
