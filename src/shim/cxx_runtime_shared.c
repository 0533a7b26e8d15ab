/* SPDX-License-Identifier: MIT */
#include "core/panic.h"
#include "shim/cxx_runtime.h"

__attribute__((weak)) hk_new_handler_t _ZSt15get_new_handlerv(void);
__attribute__((weak, noreturn)) void _ZSt17__throw_bad_allocv(void);

hk_new_handler_t cxx_new_handler(void) {
    hk_new_handler_t (*get)(void) = _ZSt15get_new_handlerv;
    if (get == NULL)
        get = (hk_new_handler_t(*)(void))cxx_runtime_symbol("_ZSt15get_new_handlerv");
    return get != NULL ? get() : NULL;
}

void cxx_throw_bad_alloc(void) {
    void (*throw)(void) = _ZSt17__throw_bad_allocv;
    if (throw == NULL)
        throw = (void (*)(void))cxx_runtime_symbol("_ZSt17__throw_bad_allocv");
    if (throw != NULL)
        throw();
    hk_fatal("operator new is out of memory, and there is no C++ runtime to throw bad_alloc");
}
