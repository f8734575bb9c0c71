# retile_fortran: the module `retile`, where there are a Fortran compiler and mpi_f08. Arrays are handed to C++ by the
# compiler's own descriptors, so that its C++ compiler must know them (ISO_Fortran_binding.h).
include(CheckLanguage)
include(CheckIncludeFileCXX)
check_language(Fortran)
check_include_file_cxx(ISO_Fortran_binding.h RETILE_HAS_FORTRAN_BINDING)
if(NOT CMAKE_Fortran_COMPILER OR NOT RETILE_HAS_FORTRAN_BINDING)
  return()
endif()
enable_language(Fortran)
find_package(MPI COMPONENTS Fortran)
if(NOT MPI_Fortran_HAVE_F08_MODULE)
  return()
endif()

target_sources(retile_c_mpi PRIVATE c/src/fortran.cpp)
add_library(retile_fortran c/fortran/interfaces.f90 c/fortran/retile.f90)
add_library(retile::fortran ALIAS retile_fortran)
set(retile_module_directory ${CMAKE_INSTALL_INCLUDEDIR}/retile/fortran)
set_target_properties(retile_fortran PROPERTIES
  EXPORT_NAME fortran
  POSITION_INDEPENDENT_CODE ON
  Fortran_MODULE_DIRECTORY ${PROJECT_BINARY_DIR}/fortran)
target_include_directories(retile_fortran INTERFACE
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/fortran> $<INSTALL_INTERFACE:${retile_module_directory}>)
target_link_libraries(retile_fortran PUBLIC retile_c_mpi MPI::MPI_Fortran)
install(FILES ${PROJECT_BINARY_DIR}/fortran/retile.mod ${PROJECT_BINARY_DIR}/fortran/retile_interfaces.mod c/fortran/retile.f90
  DESTINATION ${retile_module_directory})
