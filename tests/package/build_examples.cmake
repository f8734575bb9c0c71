# Installs BUILD into a prefix of its own, then builds and runs the examples and the programs in documents against it.
# LAUNCHER starts an MPI job of 4 ranks; empty where there is no MPI.

# What an earlier version installed must not help this one.
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(build source)
  cmake_path(GET source FILENAME name)
  run(${CMAKE_COMMAND} -S ${source} -B ${WORK}/build/${name} -G ${GENERATOR}
    -D CMAKE_BUILD_TYPE=${CONFIG}
    -D CMAKE_CXX_COMPILER=${COMPILER}
    -D CMAKE_PREFIX_PATH=${WORK}/prefix)
  run(${CMAKE_COMMAND} --build ${WORK}/build/${name} --config ${CONFIG})
endfunction()

# Runs a program and compares what it prints with a file.
function(expect_output file)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${file} expected)
  if(NOT printed STREQUAL expected)
    message(FATAL_ERROR "${ARGN} prints\n${printed}instead of\n${expected}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --config ${CONFIG} --prefix ${WORK}/prefix)
build(${SOURCE}/examples)
foreach(example IN ITEMS 01_plan 02_own_buffers 05_c)
  expect_output(${SOURCE}/examples/${example}.expected ${WORK}/build/examples/${example})
endforeach()
if(LAUNCHER)
  string(REPLACE "|" ";" launcher "${LAUNCHER}")
  foreach(example IN ITEMS 03_mpi_pencils 04_scalapack 06_fortran 08_c_mpi 09_fortran_scalapack)
    if(EXISTS ${WORK}/build/examples/${example}) # what needs ScaLAPACK or Fortran may be left out
      expect_output(${SOURCE}/examples/${example}.expected ${launcher} ${WORK}/build/examples/${example})
    endif()
  endforeach()
endif()

# Nothing but the interface can be seen of the C libraries, and they need neither fmt nor the libraries of files.
find_program(nm nm REQUIRED)
find_program(readelf readelf REQUIRED)
file(GLOB_RECURSE c_libraries ${WORK}/prefix/*/libretile_c*.so)
foreach(c_library IN LISTS c_libraries)
  execute_process(COMMAND ${nm} --dynamic --defined-only --format=posix ${c_library} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "(^|\n)retile_[^\n]*" "" others "${symbols}")
  string(STRIP "${others}" others)
  if(others)
    message(FATAL_ERROR "${c_library} shows\n${others}")
  endif()
  execute_process(COMMAND ${nm} --dynamic --undefined-only ${c_library} OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
  if(needed MATCHES "3fmt")
    message(FATAL_ERROR "${c_library} needs fmt:\n${needed}")
  endif()
  execute_process(COMMAND ${readelf} --dynamic ${c_library} OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "NEEDED[^\n]*" needed "${needed}")
  if(needed MATCHES "lib(blosc|zstd|lz4|z|hdf5)")
    message(FATAL_ERROR "${c_library} needs libraries of files:\n${needed}")
  endif()
endforeach()
file(GLOB_RECURSE c_library ${WORK}/prefix/*/libretile_c.so)
cmake_path(GET c_library PARENT_PATH libraries)
find_program(python python3)
if(python)
  # The block in the page, whose last line says what it prints.
  file(READ ${SOURCE}/docs/other-languages.md text)
  string(REGEX MATCH "```python\n([^`]*  # ([^\n]*)\n)```" block "${text}")
  file(WRITE ${WORK}/build/ctypes_block.py "${CMAKE_MATCH_1}")
  file(WRITE ${WORK}/build/ctypes_block.expected "${CMAKE_MATCH_2}\n")
  expect_output(${WORK}/build/ctypes_block.expected
    ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${python} ${WORK}/build/ctypes_block.py)
  expect_output(${SOURCE}/examples/07_ctypes.expected ${python} ${SOURCE}/examples/07_ctypes.py ${c_library})
endif()
find_program(pkg_config pkg-config)
if(pkg_config)
  # Builds an example as docs/other-languages.md says, and runs it.
  function(build_by_pkg_config compiler example extension package)
    set(program ${WORK}/build/${example}_by_pkg_config)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${libraries}/pkgconfig
      ${pkg_config} --cflags --libs ${package} OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(${compiler} ${SOURCE}/examples/${example}.${extension} -o ${program} ${flags})
    expect_output(${SOURCE}/examples/${example}.expected
      ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${ARGN} ${program})
  endfunction()
  build_by_pkg_config(cc 05_c c retile-c)
  find_program(mpi_c_compiler mpicc)
  if(LAUNCHER AND EXISTS ${WORK}/build/examples/08_c_mpi AND mpi_c_compiler)
    build_by_pkg_config(${mpi_c_compiler} 08_c_mpi c retile-c_mpi ${launcher})
  endif()
  find_program(mpi_fortran_compiler mpifort)
  if(LAUNCHER AND EXISTS ${WORK}/build/examples/06_fortran AND mpi_fortran_compiler)
    build_by_pkg_config(${mpi_fortran_compiler} 06_fortran f90 retile-fortran ${launcher})
  endif()
endif()

# A component that the package lacks is refused, with the reason.
file(WRITE ${WORK}/refused/CMakeLists.txt
  "cmake_minimum_required(VERSION 3.25)\nproject(refused LANGUAGES CXX)\nfind_package(retile REQUIRED COMPONENTS mpo)\n")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK}/refused -B ${WORK}/build/refused -G ${GENERATOR}
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${WORK}/prefix
  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE errors)
string(REGEX REPLACE "[ \n]+" " " errors "${errors}") # CMake breaks lines
if(status EQUAL 0 OR NOT errors MATCHES "retile has no component mpo, only mpi, cuda, cuda_mpi, c, c_mpi, fortran")
  message(FATAL_ERROR "component mpo: status ${status}\n${errors}")
endif()

# The blocks of documents as they stand there. find_package comes after add_executable, which does not mind.
function(build_document document name)
  file(READ ${SOURCE}/${document} text)
  string(REGEX MATCH "```cpp\n([^`]*)```" block "${text}")
  set(program "${CMAKE_MATCH_1}")
  string(REGEX MATCH "```cmake\n([^`]*)```" block "${text}")
  if(NOT program OR NOT CMAKE_MATCH_1)
    message(FATAL_ERROR "${document} shows no program")
  endif()
  file(WRITE ${WORK}/${name}/main.cpp "${program}")
  file(WRITE ${WORK}/${name}/CMakeLists.txt
    "cmake_minimum_required(VERSION 3.25)\nproject(${name} LANGUAGES CXX)\nadd_executable(program main.cpp)\n${CMAKE_MATCH_1}")
  build(${WORK}/${name})
endfunction()
build_document(docs/install.md install)
run(${WORK}/build/install/program)
if(LAUNCHER)
  build_document(README.md readme)
  file(READ ${SOURCE}/README.md text)
  if(NOT text MATCHES "mpirun -np 4 ./program \\| uniq\n([^`]*)```")
    message(FATAL_ERROR "README.md does not show what its program prints")
  endif()
  string(REPEAT "${CMAKE_MATCH_1}" 4 expected)
  file(WRITE ${WORK}/readme/expected "${expected}")
  expect_output(${WORK}/readme/expected ${launcher} ${WORK}/build/readme/program)
endif()
