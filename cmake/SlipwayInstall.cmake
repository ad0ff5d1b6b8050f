# slipway_install(TARGET): the library, its headers and what find_package(slipway) needs.
include(CMakePackageConfigHelpers)

function(slipway_install target)
  set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/slipway)
  install(TARGETS ${target} EXPORT slipwayTargets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/slipway
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  install(EXPORT slipwayTargets NAMESPACE slipway:: DESTINATION ${config_dir})

  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/slipwayConfig.cmake.in
    ${PROJECT_BINARY_DIR}/slipwayConfig.cmake INSTALL_DESTINATION ${config_dir})
  # While the major version is 0, a new minor version may break what compiled before.
  if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(compatibility SameMinorVersion)
  else()
    set(compatibility SameMajorVersion)
  endif()
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/slipwayConfigVersion.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY ${compatibility})
  install(FILES ${PROJECT_BINARY_DIR}/slipwayConfig.cmake ${PROJECT_BINARY_DIR}/slipwayConfigVersion.cmake
    DESTINATION ${config_dir})
endfunction()
