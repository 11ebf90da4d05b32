# fla_plugin(TARGET SOURCES…): a plugin of fla, the shared library libTARGET.so. One of the sources says FLA_PLUGIN. To
# be loaded, the file and its folder must not be writable by others than their owner and root. Installed into
# ${FLA_PLUGIN_DIR} below fla's own prefix it is found without FLA_PLUGIN_PATH.
function(fla_plugin TARGET)
  add_library(${TARGET} MODULE ${ARGN})
  target_link_libraries(${TARGET} PRIVATE fla::fla)
  set_target_properties(${TARGET} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                             POSITION_INDEPENDENT_CODE ON)
  # The places that its verdicts name are below the plugin's own sources, not on the machine that built it.
  set(places -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  target_compile_options(${TARGET} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${places}>
                                           $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${places}>)
  # What the plugin lacks is told by the linker, not by the process that loads it. A sanitizer's runtime comes with the
  # program.
  get_target_property(options ${TARGET} LINK_OPTIONS)
  if(NOT "${options} ${CMAKE_CXX_FLAGS} ${CMAKE_MODULE_LINKER_FLAGS}" MATCHES "-fsanitize")
    target_link_options(${TARGET} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
