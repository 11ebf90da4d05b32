# Installation: the library with its public headers, the package files for CMake and pkg-config, the command.

include(CMakePackageConfigHelpers)

# The headers that a program may include; every other header of fla/ is the library's own business.
set(FLA_PUBLIC_HEADERS
  fla/c_api.h
  fla/fla.h
  fla/core/arguments.h
  fla/core/copy_arguments.h
  fla/core/cuda_devices.h
  fla/core/device.h
  fla/core/device_memory.h
  fla/core/dtype.h
  fla/core/environment.h
  fla/core/errors.h
  fla/core/export.h
  fla/core/half.h
  fla/core/scratch.h
  fla/core/subscription.h
  fla/core/tensor.h
  fla/core/threads.h
  fla/core/version.h
  fla/core/workspace.h
  fla/dispatch/backend/backend.h
  fla/dispatch/backend/verdict.h
  fla/dispatch/call/answer.h
  fla/dispatch/call/counting.h
  fla/dispatch/call/dispatch.h
  fla/dispatch/call/erased.h
  fla/dispatch/call/function.h
  fla/dispatch/call/snapshot.h
  fla/dispatch/call/thread_state.h
  fla/dispatch/call/trace.h
  fla/dispatch/catalog/plugin_record.h
  fla/dispatch/catalog/registration.h
  fla/dispatch/choice/accepting_backends.h
  fla/dispatch/choice/call_by_name.h
  fla/dispatch/choice/function_backend.h
  fla/dispatch/choice/named_function.h
  fla/dispatch/choice/plan.h
  fla/dispatch/config/config.h
  fla/dispatch/failure/breaker.h
  fla/dispatch/observe/counters.h
  fla/dispatch/observe/explain.h
  fla/dispatch/observe/ops.h
  fla/dispatch/observe/registry_snapshot.h
  fla/dispatch/plugins/plugin.h
  fla/dispatch/settings/policy.h
  fla/ops/common/kernel_views.h
  fla/ops/common/stages.h
  fla/ops/delta_rule/delta_rule.h
  fla/ops/dplr_delta_rule/dplr_delta_rule.h
  fla/ops/iplr_delta_rule/iplr_delta_rule.h
  fla/ops/gated_delta_rule/gated_delta_rule.h
  fla/ops/gated_delta_rule_step/gated_delta_rule_step.h
  fla/ops/gated_rms_norm/gated_rms_norm.h
  fla/ops/merge/merge.h
  fla/ops/gla/gla.h
  fla/ops/kda/kda.h
  fla/ops/kda_step/kda_step.h
  fla/ops/lightning_attn/lightning_attn.h
  fla/ops/linear_attn/linear_attn.h
  fla/ops/ops.h
  fla/ops/recurrence/arguments.h
  fla/ops/recurrence/call.h
  fla/ops/recurrence/call_of.h
  fla/ops/recurrence/formula.h
  fla/ops/recurrence/kinds.h
  fla/ops/recurrence/parts.h
  fla/ops/recurrence/recurrence.h
  fla/ops/recurrence/replay.h
  fla/ops/recurrence/replay_call.h
  fla/ops/retention/retention.h
  fla/ops/rwkv7/rwkv7.h
  fla/ops/short_conv/short_conv.h
  fla/ops/simple_gla/simple_gla.h
  fla/ops/step/arguments.h
  fla/ops/step/parts.h
  fla/ops/step/step.h
)
list(TRANSFORM FLA_PUBLIC_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/)
target_sources(fla PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${FLA_PUBLIC_HEADERS})

# Hidden visibility does not reach templates of namespaces that are declared visible, such as std.
target_link_options(fla PRIVATE LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/fla.map)
set_property(TARGET fla APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fla.map)

install(TARGETS fla EXPORT fla-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The conformance suite, for the tests of plugins and for the command.
if(TARGET fla_conformance)
  set_target_properties(fla_conformance PROPERTIES EXPORT_NAME conformance)
  set_target_properties(fla_cases PROPERTIES EXPORT_NAME cases)
  install(TARGETS fla_conformance fla_cases EXPORT fla-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/tools/conformance/conformance.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fla)
  # A component of their own: they would be most of a wheel. Without them the suite reports its check of them as not shown.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tests/golden/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fla/golden
    COMPONENT golden FILES_MATCHING PATTERN "*.safetensors")
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fla)
install(EXPORT fla-targets NAMESPACE fla:: DESTINATION ${package_dir})
# A component of its own: who asks for it needs MPI or NCCL, and wheels are without it. NCCL is found where the build found it.
if(TARGET fla_distributed)
  set_target_properties(fla_distributed PROPERTIES EXPORT_NAME distributed INSTALL_RPATH "$ORIGIN"
    INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS fla_distributed EXPORT fla-distributed-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT distributed
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT distributed)
  install(EXPORT fla-distributed-targets NAMESPACE fla:: DESTINATION ${package_dir} COMPONENT distributed)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/fla-config.cmake.in ${PROJECT_BINARY_DIR}/fla-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may break programs.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fla-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fla-config.cmake ${PROJECT_BINARY_DIR}/fla-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FlaPlugin.cmake
  DESTINATION ${package_dir})

# The .pc file finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/fla.pc.in ${PROJECT_BINARY_DIR}/fla.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fla.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(TARGET fla_command)
  file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(fla_command PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  set_target_properties(fla_command PROPERTIES EXPORT_NAME command)
  install(TARGETS fla_command EXPORT fla-targets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
