# MPI in the build, as FLA_MPI asks for it: sets FLA_HAS_MPI, or FLA_NO_MPI to the reason why there is none.

set(FLA_HAS_MPI OFF CACHE INTERNAL "Whether fla::distributed knows MPI")
set(FLA_NO_MPI)

string(TOUPPER "${FLA_MPI}" FLA_MPI)
if(NOT FLA_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FLA_MPI: expected AUTO, ON or OFF, got ${FLA_MPI}")
endif()

if(FLA_MPI STREQUAL "OFF")
  set(FLA_NO_MPI "FLA_MPI=OFF")
elseif(FLA_SANITIZE)
  set(FLA_NO_MPI "MPI's own libraries are without FLA_SANITIZE=${FLA_SANITIZE}")
else()
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    set(FLA_NO_MPI "no MPI for C++ was found (libopenmpi-dev)")
  endif()
endif()

if(NOT FLA_NO_MPI)
  set(FLA_HAS_MPI ON CACHE INTERNAL "")
elseif(FLA_MPI STREQUAL "ON")
  message(FATAL_ERROR "FLA_MPI=ON: ${FLA_NO_MPI}")
else()
  list(APPEND FLA_LEFT_OUT "fla::distributed over MPI: ${FLA_NO_MPI}")
endif()
