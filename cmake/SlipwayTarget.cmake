# What every target of this project is compiled with, in one place.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(SLIPWAY_CCACHE ccache)
if(SLIPWAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${SLIPWAY_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLIPWAY_CCACHE})
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(slipway_options INTERFACE)
target_compile_options(slipway_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  -Wcast-qual -Wundef -Wextra-semi
  # g++ 12 warns of std::string's own operator+ (GCC bug 105651, mended in 13).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${SLIPWAY_WERROR}>:-Werror>)
target_link_libraries(slipway_options INTERFACE Threads::Threads)

# Builds by preset compile the standard library's headers once. `lint` reads every file without: there it shows that it
# includes what it needs.
if(SLIPWAY_PRECOMPILE)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
  add_library(slipway_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(slipway_precompiled PRIVATE slipway_options)
  target_precompile_headers(slipway_precompiled PRIVATE
    <algorithm> <atomic> <chrono> <cstdint> <functional> <map> <memory> <mutex> <optional> <span> <string> <thread> <vector>)
endif()
function(slipway_precompile target)  # for libraries; programs differ in position independence
  if(SLIPWAY_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM slipway_precompiled)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # ccache sees through -fpch-preprocess. The warnings are GCC bug 105651 (above) in other guises.
      target_compile_options(${target} PRIVATE -fpch-preprocess
        "$<$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>")
    endif()
  endif()
endfunction()

# slipway_layer(NAME sources...): one folder of src/ is one target, and sees only its own tree and include/.
function(slipway_layer name)
  add_library(slipway_${name} OBJECT ${ARGN})
  target_link_libraries(slipway_${name} PRIVATE $<BUILD_INTERFACE:slipway_options>)
  target_compile_definitions(slipway_${name} PRIVATE SLIPWAY_BUILDING
    $<$<BOOL:${SLIPWAY_NO_MEMBARRIER}>:SLIPWAY_NO_MEMBARRIER>)
  target_include_directories(slipway_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  slipway_precompile(slipway_${name})
  # Compiled once more for the simulator's tests (tests/simulator), whose objects take the place of these.
  set(consulted replay_program.cpp executable.cpp executable_helper.cpp executable_publish.cpp executable_resettable.cpp
    tape_layout.cpp sim_driver.cpp)
  set_source_files_properties(${consulted} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # A layer's files share no file-local names, so that they can be compiled together: a quarter of the time in builds
  # from nothing without optimisation.
  set_target_properties(slipway_${name} PROPERTIES UNITY_BUILD ${SLIPWAY_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  set_property(GLOBAL APPEND PROPERTY SLIPWAY_LAYERS slipway_${name})
endfunction()
