/* SPDX-License-Identifier: MIT
 *
 * cxx_runtime.h: what operator new needs of the C++ runtime of the program, and only when there is no memory.
 *
 * libhakmem.so must not need a C++ runtime, so it looks for one when the time has come (cxx_runtime_shared.c). A
 * program that links libhakmem.a and calls operator new has a runtime for certain, and the linker takes from a static
 * one only what is asked for by name; so the archive asks by name (cxx_runtime_static.c). Each library holds one of the
 * two files.
 */
#pragma once

#include "base/base.h"

typedef void (*hk_new_handler_t)(void);

/* The new_handler in force; NULL when there is none, or no runtime. */
hk_new_handler_t cxx_new_handler(void);

/* Throws std::bad_alloc; aborts with a message when there is no runtime to throw it. */
_Noreturn void cxx_throw_bad_alloc(void);

/* A function of a runtime that is loaded as a shared library; NULL when none has it. */
void *cxx_runtime_symbol(const char *name);
