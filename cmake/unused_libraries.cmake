# Debian 12 links LibTorch with OpenCV and FFmpeg, of which LibTorch uses no symbol. They load some 200
# further libraries, which is half of the start of every program that links LibTorch, and 65 MB of memory.
# So those programs find empty libraries of these names first: in lib/unused next to their folder, and
# lib/braid/unused once they are installed.
get_filename_component(directory ${TORCH_LIBRARY} DIRECTORY)
find_library(BRAID_TORCH_CPU torch_cpu PATHS ${directory} NO_DEFAULT_PATH)
find_program(BRAID_LDD ldd)
set(BRAID_UNUSED_LIBRARIES)
if(BRAID_TORCH_CPU AND BRAID_LDD)
  # -u lists libraries that are linked but unused.
  execute_process(COMMAND ${BRAID_LDD} -u ${BRAID_TORCH_CPU} OUTPUT_VARIABLE unused ERROR_QUIET)
  string(REGEX MATCHALL "lib(opencv_|av|sw)[A-Za-z0-9_]*[.]so[.0-9]*" BRAID_UNUSED_LIBRARIES "${unused}")
endif()
add_custom_target(braid-unused-libraries)
file(WRITE ${CMAKE_BINARY_DIR}/empty.cc "")
foreach(name ${BRAID_UNUSED_LIBRARIES})
  add_library(${name} SHARED ${CMAKE_BINARY_DIR}/empty.cc)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/unused)
  target_link_options(${name} PRIVATE -nostdlib)
  add_dependencies(braid-unused-libraries ${name})
  install(TARGETS ${name} LIBRARY DESTINATION lib/braid/unused COMPONENT programs)
endforeach()
# DT_RPATH, unlike DT_RUNPATH, is also searched for the libraries that a library needs.
add_link_options(-Wl,--disable-new-dtags)
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib/unused")
