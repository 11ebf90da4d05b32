# The end of `cmake --install --component python`, which comes after that of the library: gives the library's file the name
# that loaders look for (`soname`), puts a linker script where linkers look (`linked`), and tells the CMake package. There
# are no links then. `folder` is the library's.
set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${folder}")
if(IS_SYMLINK "${folder}/${soname}")
  file(REMOVE "${folder}/${soname}" "${folder}/${linked}")
  file(RENAME "${folder}/${file}" "${folder}/${soname}")
  file(WRITE "${folder}/${linked}" "INPUT(${soname})\n")
  file(GLOB packages "${folder}/cmake/fla/fla-targets-*.cmake")
  foreach(package IN LISTS packages)
    file(READ "${package}" text)
    string(REPLACE "/${file}\"" "/${soname}\"" text "${text}")
    file(WRITE "${package}" "${text}")
  endforeach()
endif()
