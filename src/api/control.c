/* SPDX-License-Identifier: MIT */
#include "core/message.h"
#include "core/options.h"
#include "core/print.h"
#include "hakmem.h"
#include "report/check.h"
#include "report/describe.h"
#include "slow/reclaim.h"

enum { VERSION_NUMBER = HAK_VERSION_MAJOR * 10000 + HAK_VERSION_MINOR * 100 + HAK_VERSION_PATCH };

HK_EXPORT int hak_version(void) { return VERSION_NUMBER; }

HK_EXPORT const char *hak_build_info(void) { return hk_build_info; }

HK_EXPORT int hak_option_set(const char *name, const char *value) {
    int error = hk_option_set(name, value);
    hk_limit_changed();
    return error;
}

HK_EXPORT int hak_option_get(const char *name, char *value, size_t value_size) {
    return hk_option_get(name, value, value_size);
}

HK_EXPORT void hak_options_print(int fd) {
    char buffer[HK_OUT_BUFFER];
    hk_out_t out;
    hk_out_to_fd(&out, fd, buffer, sizeof buffer);
    hk_options_print(&out);
    hk_out_flush(&out);
}

HK_EXPORT bool hak_owns(const void *ptr) { return hk_owns(ptr); }

HK_EXPORT size_t hak_trim(void) { return hk_trim_all(); }

HK_EXPORT int hak_limit_set(size_t soft, size_t hard) {
    int error = hk_limit_set(soft, hard);
    if (error == 0)
        hk_limit_changed();
    return error;
}

HK_EXPORT size_t hak_check(void) { return hk_check_all(); }
