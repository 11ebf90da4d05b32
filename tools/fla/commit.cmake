# Writes OUTPUT, a header with the commit that is being built (empty outside a repository), when it has changed.
execute_process(COMMAND git describe --always --dirty --tags WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\n#define FLA_COMMIT \"${commit}\"\n")
