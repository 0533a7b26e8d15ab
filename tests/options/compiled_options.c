/* SPDX-License-Identifier: MIT
 *
 * What compiled.c is compiled with; in a static library of its own, nothing else names this object.
 */
#include "hakmem.h"

const char hak_default_options[] =
    " PURGE_DELAY=100 hakmem_limit=1G:2G\tSTATS=off\nON_ERROR=report SAFE=0 SAEF=1 ADAPT=perhaps HUGE ";
