/* SPDX-License-Identifier: MIT
 *
 * Damaged unwind tables and damaged stacks: whatever they say, nothing outside of them is read. Tables are a copy of
 * this program's between pages that cannot be read, of which bytes are changed; first the copy must say what the
 * original says. Stacks are pages of random words, many of which lead back into the stack or into code, below a page
 * that cannot be read.
 *
 *   unwind_fuzz [SECONDS]    the same damage each time; 2 seconds for each of the two
 */
#include "check.h"
#include "unwind/rule.h"
#include "unwind/unwind.h"

#include <sys/mman.h>
#include <time.h>

enum { PAGE = 65536, CHANGES_MAX = 16, STACK_WORDS = PAGE / 8 };

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t next(void) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * UINT64_C(0x2545f4914f6cdd1d);
}

/* `size` bytes that can be read and written, between pages that cannot. */
static char *between_walls(size_t size) {
    char *all = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED && mprotect(all + PAGE, size, PROT_READ | PROT_WRITE) == 0);
    return all + PAGE;
}

/* What AddressSanitizer puts between variables is read too. */
__attribute__((no_sanitize("address"))) static void copy_all(char *to, uintptr_t from, size_t size) {
    for (size_t i = 0; i < size; i++)
        to[i] = ((const volatile char *)from)[i];
}

static unwind_module_t program;

static bool agree(uintptr_t pc, ptrdiff_t moved, const unwind_module_t *copy) {
    unwind_module_t here = program, there = *copy;
    const unwind_rule_t a = unwind_rule_of(&here, pc), b = unwind_rule_of(&there, pc + (uintptr_t)moved);
    return memcmp(&a, &b, sizeof a) == 0;
}

static void tables(time_t end) {
    const size_t size = (program.end - program.start + PAGE - 1) / PAGE * PAGE;
    char *at = between_walls(size), *kept = between_walls(size);
    const size_t bytes = program.safe_end - program.safe_start, first = program.safe_start - program.start;
    copy_all(kept, program.safe_start, bytes);
    memcpy(at + first, kept, bytes);
    const ptrdiff_t moved = at - (char *)program.start;
    const unwind_module_t copy = {
        .start = (uintptr_t)at, .end = (uintptr_t)at + size, .tables = program.tables + (uintptr_t)moved};
    unsigned frames = 0;
    for (uintptr_t pc = program.start; pc < program.end; pc += 7) {
        CHECK(agree(pc, moved, &copy));
        unwind_module_t m = copy;
        frames += unwind_rule_of(&m, pc + (uintptr_t)moved).kind == UNWIND_RULE_FRAME;
    }
    CHECK(frames > 1000);
    while (time(NULL) < end) {
        for (uint64_t changes = next() % CHANGES_MAX + 1; changes > 0; changes--)
            at[first + next() % bytes] = (char)next();
        for (unsigned i = 0; i < 200; i++) {
            unwind_module_t m = copy;
            (void)unwind_rule_of(&m, copy.start + next() % (program.end - program.start));
        }
        memcpy(at + first, kept, bytes);
    }
}

static uintptr_t any_code(void) {
    static const uintptr_t libraries[] = {(uintptr_t)&memcpy, (uintptr_t)&printf, (uintptr_t)&mmap};
    return next() % 2 == 0 ? program.start + next() % (program.end - program.start)
                           : libraries[next() % 3] + next() % 4096;
}

static uintptr_t any_word(const uintptr_t *stack) {
    switch (next() % 4) {
    case 0:
        return any_code();
    case 1:
        return (uintptr_t)(stack + next() % (STACK_WORDS + 64));
    case 2:
        return next() % 4096;
    default:
        return next();
    }
}

static void stacks(time_t end) {
    uintptr_t pcs[128], *stack = (uintptr_t *)(void *)between_walls(PAGE);
    unsigned longest = 0;
    while (time(NULL) < end) {
        for (unsigned i = 0; i < STACK_WORDS; i++)
            stack[i] = any_word(stack);
        for (unsigned i = 0; i < 500; i++) {
            const unwind_start_t start = {.at = {.pc = next() % 8 == 0 ? next() : any_code(),
                                                 .sp = next() % 64 == 0 ? next() : any_word(stack) & ~(uintptr_t)7,
                                                 .fp = any_word(stack),
                                                 .lr = any_code()}};
            unwind_end_t why;
            const unsigned count = unwind_capture(&start, pcs, 128, &why);
            CHECK(count >= 1 && pcs[0] == start.at.pc && why <= UNWIND_OUT_OF_BOUNDS);
            longest = count > longest ? count : longest;
        }
    }
    CHECK(longest >= 4);
}

int main(int argc, char **argv) {
    const long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 2;
    CHECK(unwind_module_find((uintptr_t)&main, &program) && unwind_module_open(&program));
    if (program.tables == 0)
        return check_skip("this program was linked without unwind tables");
    tables(time(NULL) + seconds);
    stacks(time(NULL) + seconds);
    return CHECK_PASS;
}
