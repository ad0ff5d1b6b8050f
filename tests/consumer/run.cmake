# cmake -DBUILD_DIR= -DSOURCE_DIR= -DWORK_DIR= -DGENERATOR= -DCXX= -DVERSION= -P run.cmake
# Installs BUILD_DIR into a fresh folder, then builds and runs the project in SOURCE_DIR against it.
file(REMOVE_RECURSE ${WORK_DIR})
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${code}:\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
# Moved: nothing may depend on where it was installed.
file(RENAME ${WORK_DIR}/prefix ${WORK_DIR}/moved)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" major_minor ${VERSION})
run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
  -DCMAKE_PREFIX_PATH=${WORK_DIR}/moved -DEXPECTED_VERSION=${major_minor} -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)
message(STATUS "${output}")
if(NOT output MATCHES "slipway ${VERSION}: 2 4 6")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
