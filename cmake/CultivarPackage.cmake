# `cmake --install BUILD --prefix P`, and a Debian package (`./cultivar package`, or cpack in the build folder). The program
# finds its files relative to itself: P/bin/cultivar reads P/libexec/cultivar, P/lib/cultivar and P/share/cultivar, and
# writes to none of them. Prompts, notes, export templates and CUDA sources are built into the programs.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs DESTINATION share/cultivar)
install(FILES ${CMAKE_SOURCE_DIR}/experiments/mailbox_evolution/answers.jsonl  # replayed by configs/recorded_demo.yaml
  ${CMAKE_SOURCE_DIR}/experiments/mailbox_evolution/naive.cpp
  DESTINATION share/cultivar/experiments/mailbox_evolution)
install(FILES ${CMAKE_SOURCE_DIR}/evaluators/contenders/cultivar_contender.h DESTINATION include)
install(FILES ${CMAKE_SOURCE_DIR}/README.md DESTINATION share/doc/cultivar)

# Completion of bash, zsh and fish, and manual pages: the program writes them from its commands' definitions.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/share/man/man1/cultivar.1
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/share
  COMMAND cultivar completion --out ${CMAKE_BINARY_DIR}/share
  COMMAND gzip -9 -n -r ${CMAKE_BINARY_DIR}/share/man
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/share/man/man1/cultivar.1
  DEPENDS cultivar COMMENT "Manual pages and completion")
add_custom_target(manual ALL DEPENDS ${CMAKE_BINARY_DIR}/share/man/man1/cultivar.1)
add_dependencies(programs manual)
install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION share PATTERN "cultivar.1" EXCLUDE)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cultivar)
set(CPACK_PACKAGE_CONTACT "Cultivar")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "evolves compute kernels")
set(CPACK_PACKAGE_DESCRIPTION "Mutates, compiles, checks and times kernels for CPUs and NVIDIA GPUs, and keeps the faster ones.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# A search compiles kernels and oracles (g++; one contender uses Eigen) and runs them in a sandbox (bubblewrap). Exported
# projects are built with cmake and make. Requests to language models use https.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "bubblewrap, cmake, g++, libeigen3-dev, make")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
include(CPack)
