# retile_fmt_library: fmt's headers. Its compiled half (retile_fmt_source) goes inside libretile where the headers give it,
# so that neither programs nor packages that use retile need fmt.
include_guard()
find_package(fmt REQUIRED)

get_target_property(retile_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)

file(WRITE ${PROJECT_BINARY_DIR}/fmt_trial.cpp
  "#include <fmt/format.h>\n"
  "int main() { return static_cast<int>(fmt::format(\"{} {:.6f} {:>3} {}\", 1, 2.5, \"x\", 1.5F).size()); }\n")
try_compile(RETILE_CARRIES_FMT ${PROJECT_BINARY_DIR}/fmt_trial
  SOURCES ${PROJECT_BINARY_DIR}/fmt_trial.cpp ${PROJECT_SOURCE_DIR}/cmake/fmt.cpp
  CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${retile_fmt_include}"
  CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
if(RETILE_CARRIES_FMT)
  add_library(retile_fmt INTERFACE)
  target_include_directories(retile_fmt SYSTEM INTERFACE ${retile_fmt_include})
  set(retile_fmt_library $<BUILD_INTERFACE:retile_fmt>)
  set(retile_fmt_source ${PROJECT_SOURCE_DIR}/cmake/fmt.cpp)
  set_source_files_properties(${retile_fmt_source} PROPERTIES COMPILE_OPTIONS "-w")
else()
  message(STATUS "This fmt cannot be carried inside libretile: users of the package need it")
  set(retile_fmt_library fmt::fmt)
endif()
