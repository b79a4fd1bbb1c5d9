# The Python package: sources of python/tensorpager with the extension _core beside them, in the virtual environment's site-packages.
Python_add_library(tensorpager_core MODULE src/tensorpager/session/python_module.cpp)
set_target_properties(tensorpager_core PROPERTIES OUTPUT_NAME _core INSTALL_RPATH "\$ORIGIN/lib;\$ORIGIN/../torch/lib")
tensorpager_own_target(tensorpager_core)
target_link_libraries(tensorpager_core PRIVATE tensorpager_library)

set(TENSORPAGER_SITE lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/site-packages)
set(TENSORPAGER_DEBIAN_SITE lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/dist-packages)
configure_file(cmake/build_info.py.in generated/_build_info.py @ONLY)
configure_file(cmake/install_layout.h.in generated/install_layout.h @ONLY)
# A wheel's root becomes site-packages.
set(package_directory ${TENSORPAGER_SITE}/tensorpager)
if(SKBUILD)
  set(package_directory tensorpager)
endif()
install(TARGETS tensorpager_core DESTINATION ${package_directory})
install(DIRECTORY python/tensorpager/ DESTINATION ${package_directory} FILES_MATCHING PATTERN "*.py")
install(FILES ${PROJECT_BINARY_DIR}/generated/_build_info.py DESTINATION ${package_directory})
