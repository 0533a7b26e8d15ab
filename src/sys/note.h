/* SPDX-License-Identifier: MIT
 *
 * note.h: an ELF note that leads to a record of ours. It is part of the memory image, so a reader of the process's
 * memory finds it also where the file was stripped, deleted or linked into another. The distance is counted from where
 * it stands: nothing is relocated.
 */
#pragma once

#include "base/base.h"

/* At file scope. Section .note.`owner`, of `length` bytes with the NUL; type 1; two words: `layout`, and the distance
 * from that second word to `symbol`, which is hidden. */
#define SYS_NOTE(owner, length, layout, symbol)                                                                        \
    __asm__(".pushsection .note." owner ",\"a\",%note\n"                                                               \
            ".balign 4\n"                                                                                              \
            ".long " #length ", 8, 1\n"                                                                                \
            ".asciz \"" owner "\"\n"                                                                                   \
            ".balign 4\n"                                                                                              \
            ".long " #layout "\n"                                                                                      \
            ".long " #symbol " - .\n"                                                                                  \
            ".popsection")
