/* SPDX-License-Identifier: MIT */
#include "shim/cxx_runtime.h"

hk_new_handler_t _ZSt15get_new_handlerv(void);
_Noreturn void _ZSt17__throw_bad_allocv(void);

hk_new_handler_t cxx_new_handler(void) { return _ZSt15get_new_handlerv(); }

void cxx_throw_bad_alloc(void) { _ZSt17__throw_bad_allocv(); }
