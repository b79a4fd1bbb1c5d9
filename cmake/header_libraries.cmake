# Libraries of headers alone, looked for before anything is compiled.
find_package(CLI11 QUIET)
find_package(nlohmann_json QUIET)
if(NOT CLI11_FOUND OR NOT nlohmann_json_FOUND)
  message(FATAL_ERROR "CLI11 or nlohmann-json is missing; try apt-get install libcli11-dev nlohmann-json3-dev (as root), pip install pgm-build-deps for pip install --no-build-isolation, or make build, which unpacks them without root")
endif()
