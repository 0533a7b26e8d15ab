# SPDX-License-Identifier: MIT
#
# Makes ARCHIVE of OBJECTS, with no global names but those that programs may use: `cmake -DARCHIVE=... -P archive.cmake`, with the
# command LINK and the tools NM, OBJCOPY, AR and RANLIB.
#
# The objects become one, in which hidden names are local: a static program may have functions of the same names. The operators of C++
# (src/shim/cxx*) are a second one: they need a C++ runtime, and a program in C, which does not ask for them, has none. What
# they need of the first keeps a global name, hidden and with the prefix hk_. One name of the probes stays as it is: weak and hidden.

cmake_minimum_required(VERSION 3.21)

get_filename_component(place "${ARCHIVE}" DIRECTORY)
set(main "${place}/hakmem.o")
set(cxx "${place}/hakmem_cxx.o")

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# names(VARIABLE nm's arguments...): the last word of each line.
function(names variable)
    execute_process(COMMAND ${NM} ${ARGN} OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX REPLACE "[^\n]* " "" lines "${lines}")
    string(REGEX MATCHALL "[^\n]+" lines "${lines}")
    set(${variable} "${lines}" PARENT_SCOPE)
endfunction()

set(cxx_objects ${OBJECTS})
list(FILTER OBJECTS EXCLUDE REGEX "/shim/cxx")
list(FILTER cxx_objects INCLUDE REGEX "/shim/cxx")
run(${LINK} -o "${main}" ${OBJECTS})
set(members "${main}")
set(shared "")
if(cxx_objects)
    run(${LINK} -o "${cxx}" ${cxx_objects})
    list(APPEND members "${cxx}")
    names(wanted --undefined-only "${cxx}")
    names(shared --extern-only --defined-only "${main}")
    list(FILTER shared EXCLUDE REGEX "^hak_")
    foreach(name IN LISTS shared)
        if(NOT name IN_LIST wanted)
            list(REMOVE_ITEM shared "${name}")
        endif()
    endforeach()
endif()

set(base "_.stapsdt.base") # of the probes' notes (sys/probe.h): gold refuses a note that refers to a local name of a group
set(rename "")
set(keep "--globalize-symbol=${base}")
foreach(name IN LISTS shared)
    string(REGEX REPLACE "^hk_" "" bare "${name}")
    list(APPEND rename "--redefine-sym=${name}=hk_${bare}")
    list(APPEND keep "--globalize-symbol=hk_${bare}")
endforeach()
foreach(member IN LISTS members)
    run(${OBJCOPY} --localize-hidden ${rename} "${member}")
endforeach()
run(${OBJCOPY} ${keep} "${main}")
run(${OBJCOPY} "--weaken-symbol=${base}" "${main}")

file(REMOVE "${ARCHIVE}")
run(${AR} qcD "${ARCHIVE}" ${members})
run(${RANLIB} -D "${ARCHIVE}")
file(REMOVE ${members})
