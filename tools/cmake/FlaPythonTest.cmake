find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

# fla_python_test(NAME FILE [PROPERTIES …]): every test method of a unittest file becomes the CTest entry NAME.method,
# with label unit. What the tests need to know of the build stands in the environment.
function(fla_python_test NAME FILE)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "PROPERTIES")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${FILE})
  cmake_path(GET FILE STEM module)
  file(STRINGS ${FILE} lines REGEX "^(class [A-Za-z]+|    def test_)")
  foreach(line IN LISTS lines)
    if(line MATCHES "^class ([A-Za-z]+)")
      set(class ${CMAKE_MATCH_1})
    elseif(line MATCHES "def test_([A-Za-z0-9_]+)")
      set(test ${NAME}.${CMAKE_MATCH_1})
      add_test(NAME ${test} COMMAND Python3::Interpreter -m unittest ${module}.${class}.test_${CMAKE_MATCH_1}
               WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      set_tests_properties(${test} PROPERTIES LABELS unit TIMEOUT 600
        ENVIRONMENT "FLA_SOURCE_DIR=${PROJECT_SOURCE_DIR};FLA_BUILD_DIR=${PROJECT_BINARY_DIR};CXX=${CMAKE_CXX_COMPILER};PYTHONDONTWRITEBYTECODE=1"
        ${ARG_PROPERTIES})
    endif()
  endforeach()
endfunction()
