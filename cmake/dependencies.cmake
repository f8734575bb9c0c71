# The libraries that retile is compiled with. Those of the system come first (find_package). One that is missing is
# downloaded, in the version that the tests run with, and checked by its hash. FETCHCONTENT_SOURCE_DIR_FMT=DIR and its
# like name a folder with the sources instead, for machines without a network.
include_guard()
include(FetchContent)

# Sets NAME_SOURCE_DIR to the unpacked sources. Nothing of them is built.
function(retile_fetch name debian_package url hash)
  string(TOUPPER ${name} upper_name)
  if(NOT FETCHCONTENT_SOURCE_DIR_${upper_name})
    cmake_path(GET url FILENAME archive)
    set(archive ${FETCHCONTENT_BASE_DIR}/${name}-${archive})
    if(NOT EXISTS ${archive})
      message(STATUS "${name} is not installed: downloading ${url}")
      file(DOWNLOAD ${url} ${archive} STATUS status)
      list(POP_FRONT status code reason)
      if(NOT code EQUAL 0)
        file(REMOVE ${archive})
        message(FATAL_ERROR
          "${name} is not installed, and ${url} cannot be downloaded (${reason}).\n"
          "Install it (on Debian: apt-get install ${debian_package}), set CMAKE_PREFIX_PATH to where it is installed, "
          "or unpack its sources and set FETCHCONTENT_SOURCE_DIR_${upper_name} to their folder. "
          "With pip: pip install . -C cmake.define.FETCHCONTENT_SOURCE_DIR_${upper_name}=FOLDER\n")
      endif()
    endif()
  endif()
  FetchContent_Declare(${name}
    URL ${archive}
    URL_HASH SHA256=${hash}
    DOWNLOAD_EXTRACT_TIMESTAMP ON
    SOURCE_SUBDIR nothing-is-built)
  FetchContent_MakeAvailable(${name})
  set(${name}_SOURCE_DIR ${${name}_SOURCE_DIR} PARENT_SCOPE)
endfunction()

# A library of headers alone, as find_package would give it.
function(retile_add_headers target folder)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${folder})
endfunction()

function(retile_find_json)
  find_package(nlohmann_json QUIET)
  if(NOT nlohmann_json_FOUND)
    retile_fetch(nlohmann_json nlohmann-json3-dev
      https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
      8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f)
    retile_add_headers(nlohmann_json::nlohmann_json ${nlohmann_json_SOURCE_DIR}/include)
  endif()
endfunction()

function(retile_find_eigen)
  find_package(Eigen3 QUIET NO_MODULE)
  if(NOT Eigen3_FOUND)
    retile_fetch(eigen libeigen3-dev
      https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz
      8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72)
    retile_add_headers(Eigen3::Eigen ${eigen_SOURCE_DIR})
  endif()
endfunction()

function(retile_find_cli11)
  find_package(CLI11 QUIET)
  if(NOT CLI11_FOUND)
    retile_fetch(cli11 libcli11-dev
      https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz
      26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb)
    retile_add_headers(CLI11::CLI11 ${cli11_SOURCE_DIR}/include)
  endif()
endfunction()
