# retile_fmt_library: fmt's headers. Its compiled half (retile_fmt_source) goes inside libretile where the headers give it,
# so that neither programs nor packages that use retile need fmt.
include_guard()
include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)

find_package(fmt QUIET)
if(fmt_FOUND)
  get_target_property(retile_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  set(retile_fmt_source ${PROJECT_SOURCE_DIR}/cmake/fmt.cpp)
  file(WRITE ${PROJECT_BINARY_DIR}/fmt_trial.cpp
    "#include <fmt/format.h>\n"
    "int main() { return static_cast<int>(fmt::format(\"{} {:.6f} {:>3} {}\", 1, 2.5, \"x\", 1.5F).size()); }\n")
  try_compile(RETILE_CARRIES_FMT ${PROJECT_BINARY_DIR}/fmt_trial
    SOURCES ${PROJECT_BINARY_DIR}/fmt_trial.cpp ${retile_fmt_source}
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${retile_fmt_include}"
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
else()
  retile_fetch(fmt libfmt-dev
    https://github.com/fmtlib/fmt/releases/download/9.1.0/fmt-9.1.0.zip
    cceb4cb9366e18a5742128cb3524ce5f50e88b476f1e54737a47ffdf4df4c996)
  set(retile_fmt_include ${fmt_SOURCE_DIR}/include)
  set(retile_fmt_source ${fmt_SOURCE_DIR}/src/format.cc)
  set(RETILE_CARRIES_FMT TRUE)
endif()
if(RETILE_CARRIES_FMT)
  add_library(retile_fmt INTERFACE)
  target_include_directories(retile_fmt SYSTEM INTERFACE ${retile_fmt_include})
  set(retile_fmt_library $<BUILD_INTERFACE:retile_fmt>)
  set_source_files_properties(${retile_fmt_source} PROPERTIES COMPILE_OPTIONS "-w")
else()
  message(STATUS "This fmt cannot be carried inside libretile: users of the package need it")
  set(retile_fmt_library fmt::fmt)
  unset(retile_fmt_source)
endif()
