/* SPDX-License-Identifier: MIT
 *
 * The place of an instruction: which mapping belongs to which file, against a fixed list; then instructions of this
 * program and of a library, against what the dynamic linker says; then what is no place, and a confined process.
 */
#include "check.h"
#include "core/place.h"
#include "sys/confined.h"

#include <dlfcn.h>
#include <link.h>

static const char MAPS[] = "00400000-00401000 r--p 00000000 08:02 1      /usr/bin/fixed\n"
                           "00401000-00402000 r-xp 00001000 08:02 1      /usr/bin/fixed\n"
                           "00500000-00502000 r-xp 00000000 00:00 0 \n"
                           "7f1000000000-7f1000001000 r--p 00000000 08:02 2      /usr/lib/twice.so\n"
                           "7f1000001000-7f1000002000 r-xp 00001000 08:02 2      /usr/lib/twice.so\n"
                           "7f2000000000-7f2000001000 r--p 00000000 08:02 2      /usr/lib/twice.so\n"
                           "7f2000001000-7f2000002000 r-xp 00001000 08:02 2      /usr/lib/twice.so\n"
                           "7f3000000000-7f3000001000 r--p 00000000 08:02 3      /tmp/other\n"
                           "7f3000001000-7f3000002000 r-xp 00005000 08:02 2      /usr/lib/twice.so\n"
                           "7f4000000000-7f4000001000 ---p 00000000 08:02 4      /tmp/closed\n"
                           "7ffd10100000-7ffd10102000 r-xp 00000000 00:00 0   [vdso]\n";

static const struct {
    uintptr_t address, base;
    const char *path;
} answers[] = {
    {0x3fffff, 0, ""},
    {0x400010, 0x400000, "/usr/bin/fixed"},
    {0x401010, 0x400000, "/usr/bin/fixed"},
    {0x402000, 0, ""},
    {0x500010, 0, ""},
    {0x7f1000001ab0, 0x7f1000000000, "/usr/lib/twice.so"},
    {0x7f2000001ab0, 0x7f2000000000, "/usr/lib/twice.so"},
    {0x7f3000001ab0, 0, ""}, /* its beginning is elsewhere */
    {0x7f4000000010, 0, ""}, /* its beginning cannot be read */
    {0x7ffd10100010, 0, ""},
    {UINTPTR_MAX, 0, ""},
};

static void fixed_list(void) {
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        hk_place_t place = {.address = answers[i].address};
        hk_mappings_reader_t reader;
        hk_mappings_reader_init(&reader, hk_place_visit, &place);
        hk_mappings_reader_feed(&reader, MAPS, sizeof MAPS - 1);
        CHECK_EQ(place.found, answers[i].base != 0);
        if (place.found) {
            CHECK_EQ(place.base, answers[i].base);
            CHECK_STR(place.path, answers[i].path);
        }
    }
}

static uintptr_t searched, bias;

/* Finds what is between the addresses of the module that holds `searched` and those in its file. */
static int search(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size;
    (void)unused;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && searched >= start && searched - start < segment->p_memsz) {
            bias = info->dlpi_addr;
            return 1;
        }
    }
    return 0;
}

/* The text for an instruction in a loaded file, whose name must end like `file`. */
static void in_file(uintptr_t address, const char *file) {
    char text[HK_PLACE_TEXT_MAX], head[64], tail[HK_MAPPING_NAME_MAX];
    searched = address;
    CHECK_EQ(dl_iterate_phdr(search, NULL), 1);
    snprintf(head, sizeof head, "%p (/", (void *)address);
    snprintf(tail, sizeof tail, "%s+0x%zx)", file, (size_t)(address - bias));
    hk_place_describe((void *)address, text);
    CHECK(strncmp(text, head, strlen(head)) == 0);
    CHECK(strlen(text) > strlen(tail));
    CHECK_STR(text + strlen(text) - strlen(tail), tail);
}

static void alone(const void *address) {
    char text[HK_PLACE_TEXT_MAX], wanted[64];
    snprintf(wanted, sizeof wanted, "%p", address);
    hk_place_describe(address, text);
    CHECK_STR(text, wanted);
}

int main(void) {
    int local = 0;
    fixed_list();
    in_file((uintptr_t)&fixed_list, "/core_place");
    in_file((uintptr_t)&searched, "/core_place");
    in_file((uintptr_t)dlsym(RTLD_DEFAULT, "abort"), "");
    alone(&local);
    alone((void *)(uintptr_t)0x2000);
    sys_confine();
    alone((void *)(uintptr_t)&fixed_list);
    return CHECK_PASS;
}
