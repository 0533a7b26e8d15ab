/* SPDX-License-Identifier: MIT */
#include "core/errors.h"

#include "core/print.h"

#include <errno.h>

/* What opening, writing to and listening at a name can end with. No pointers: these would be pages of each process. */
static const struct {
    int error;
    char text[HK_ERROR_TEXT];
} texts[] = {
    {EPERM, "operation not permitted"},
    {ENOENT, "no such file or folder"},
    {EIO, "input/output error"},
    {ENXIO, "nobody reads from it"},
    {ENOMEM, "out of memory"},
    {EACCES, "permission denied"},
    {EEXIST, "something else has that name"},
    {ENOTDIR, "a part of the name is no folder"},
    {EISDIR, "it is a folder"},
    {EINVAL, "invalid argument"},
    {ENFILE, "too many files in the system"},
    {EMFILE, "too many open files"},
    {EFBIG, "the file is too large"},
    {ENOSPC, "no space left on the device"},
    {EROFS, "the file system is read-only"},
    {EPIPE, "nobody reads from it"},
    {ELOOP, "too many symbolic links"},
    {ENAMETOOLONG, "the name is too long"},
    {EDQUOT, "disk quota exceeded"},
    {EADDRINUSE, "the name is in use"},
};

const char *hk_error_text(long error, char *buffer) {
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].error == error)
            return texts[i].text;
    hk_out_t out;
    hk_out_to_memory(&out, buffer, HK_ERROR_TEXT);
    hk_print(&out, "error %ld", error);
    return buffer;
}
