# Installs BUILD into a prefix of its own, then configures, builds and runs CONSUMER against that prefix.

# What an earlier version installed must not help this one.
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --config ${CONFIG} --prefix ${WORK}/prefix)
file(GLOB_RECURSE installed ${WORK}/prefix/*)
list(FILTER installed INCLUDE REGEX "contenders|evaluation")
if(installed)
  message(FATAL_ERROR "the package carries what only measures it: ${installed}")
endif()
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR}
  -D CMAKE_BUILD_TYPE=${CONFIG}
  -D CMAKE_CXX_COMPILER=${COMPILER}
  -D CMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build --config ${CONFIG})
run(${WORK}/build/consumer)
