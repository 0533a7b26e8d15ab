/* SPDX-License-Identifier: MIT */
#include "unwind/rule.h"

#include "sys/registers.h"

/* What a function's CFI says at one of its addresses, and what it needs to be read. */
typedef struct place {
    unwind_place_t where;
    int64_t offset; /* in bytes */
} place_t;

typedef struct row {
    bool cfa_known, cfa_on_fp, cfa_in_word, is_outermost;
    int64_t cfa_offset;
    place_t fp, ret;
} row_t;

enum { ROWS_MAX = 8 };

typedef struct function {
    uintptr_t begin, size;
    uint64_t code_unit;
    int64_t data_unit;
    unsigned encoding; /* of its addresses */
    bool has_data, is_signal;
    uintptr_t pc; /* the address that is asked for */
    row_t row, initial;
    row_t remembered[ROWS_MAX];
    unsigned remembered_count;
    bool unsupported;
} function_t;

enum { ENCODING_OMIT = 0xff, ENCODING_TABLE = 0x3b /* four bytes each, relative to the tables */ };

/* --- Expressions -------------------------------------------------------------------------------------------------- */

enum {
    OP_DEREF = 0x06,
    OP_AND = 0x1a,
    OP_PLUS = 0x22,
    OP_SHL = 0x24,
    OP_GE = 0x2a,
    OP_LIT0 = 0x30,
    OP_BREG0 = 0x70,
    OP_BREG_SP = OP_BREG0 + SYS_DWARF_SP,
    OP_BREG_FP = OP_BREG0 + SYS_DWARF_FP,
    OP_BREG_RETURN = OP_BREG0 + SYS_DWARF_RETURN
};

/* `sp or fp + offset`, with nothing or a load behind it. */
static bool expression_simple(unwind_bytes_t e, bool *on_fp, int64_t *offset, bool *loads) {
    const uint64_t op = unwind_read(&e, 1);
    *on_fp = op == OP_BREG_FP;
    *offset = unwind_read_sleb(&e);
    *loads = e.at < e.end && unwind_read(&e, 1) == OP_DEREF;
    return (op == OP_BREG_SP || op == OP_BREG_FP) && !e.bad && e.at == e.end;
}

/* Of the stubs that call into other libraries (.plt), as the linkers write it: a push comes at the Nth byte of 16.
 * sp + 8 + ((pc & 15) >= N) << 3 */
static bool expression_plt(unwind_bytes_t e, uintptr_t pc, int64_t *offset) {
    if (!HK_X86_64 || unwind_read(&e, 1) != OP_BREG_SP)
        return false;
    *offset = unwind_read_sleb(&e);
    bool same = unwind_read(&e, 1) == OP_BREG_RETURN && unwind_read(&e, 1) == 0;
    same = unwind_read(&e, 1) == OP_LIT0 + 15 && unwind_read(&e, 1) == OP_AND && same;
    const uint64_t push = unwind_read(&e, 1) - OP_LIT0;
    same = unwind_read(&e, 1) == OP_GE && unwind_read(&e, 1) == OP_LIT0 + 3 && same;
    same = unwind_read(&e, 1) == OP_SHL && unwind_read(&e, 1) == OP_PLUS && same;
    *offset += (pc & 15) >= push ? 8 : 0;
    return same && push < 16 && !e.bad && e.at == e.end;
}

/* The part that comes next and begins with its length; `from` moves behind it. */
static unwind_bytes_t part_next(unwind_bytes_t *from) {
    const uint64_t size = unwind_read_uleb(from);
    unwind_bytes_t part = *from;
    if (from->bad || size > from->end - from->at)
        part.bad = from->bad = true;
    else
        part.end = from->at += size;
    return part;
}

static void cfa_by_expression(function_t *f, unwind_bytes_t *from) {
    const unwind_bytes_t e = part_next(from);
    row_t *row = &f->row;
    row->cfa_known = expression_simple(e, &row->cfa_on_fp, &row->cfa_offset, &row->cfa_in_word);
    if (!row->cfa_known && expression_plt(e, f->pc, &row->cfa_offset)) {
        row->cfa_known = true;
        row->cfa_on_fp = row->cfa_in_word = false;
    }
}

static place_t place_by_expression(unwind_bytes_t *from) {
    bool on_fp, loads;
    int64_t offset;
    if (!expression_simple(part_next(from), &on_fp, &offset, &loads) || loads)
        return (place_t){UNWIND_LOST, 0};
    return (place_t){on_fp ? UNWIND_AT_FP : UNWIND_AT_SP, offset};
}

/* --- The program of a function ------------------------------------------------------------------------------------ */

enum { /* the first two bits of an instruction say it for three of them */
       CFA_ADVANCE = 0x40,
       CFA_OFFSET = 0x80,
       CFA_RESTORE = 0xc0,
       CFA_NOP = 0,
       CFA_SET_LOC,
       CFA_ADVANCE1,
       CFA_ADVANCE2,
       CFA_ADVANCE4,
       CFA_OFFSET_EXTENDED,
       CFA_RESTORE_EXTENDED,
       CFA_UNDEFINED,
       CFA_SAME_VALUE,
       CFA_REGISTER,
       CFA_REMEMBER,
       CFA_RESTORE_STATE,
       CFA_DEF,
       CFA_DEF_REGISTER,
       CFA_DEF_OFFSET,
       CFA_DEF_EXPRESSION,
       CFA_EXPRESSION,
       CFA_OFFSET_EXTENDED_SF,
       CFA_DEF_SF,
       CFA_DEF_OFFSET_SF,
       CFA_VAL_OFFSET,
       CFA_VAL_OFFSET_SF,
       CFA_VAL_EXPRESSION,
       CFA_AARCH64_SIGNED_WITH_PC = 0x2c,
       CFA_AARCH64_SIGNED = 0x2d,
       CFA_GNU_ARGS_SIZE = 0x2e,
};

/* Where a row has what is said of a register; of those that do not matter, in `other`. */
static place_t *place_of(row_t *row, uint64_t dwarf_register, place_t *other) {
    return dwarf_register == SYS_DWARF_FP ? &row->fp : dwarf_register == SYS_DWARF_RETURN ? &row->ret : other;
}

/* An offset in bytes; damaged tables may make it anything. */
static int64_t scaled(const function_t *f, uint64_t units) { return (int64_t)(units * (uint64_t)f->data_unit); }

static void set_place(function_t *f, uint64_t dwarf_register, place_t now) {
    place_t other;
    *place_of(&f->row, dwarf_register, &other) = now;
    if (dwarf_register == SYS_DWARF_RETURN)
        f->row.is_outermost = false;
}

static void restore(function_t *f, uint64_t dwarf_register) {
    place_t other = {0};
    set_place(f, dwarf_register, *place_of(&f->initial, dwarf_register, &other));
}

static void set_cfa_register(function_t *f, uint64_t dwarf_register) {
    f->row.cfa_known = dwarf_register == SYS_DWARF_SP || dwarf_register == SYS_DWARF_FP;
    f->row.cfa_on_fp = dwarf_register == SYS_DWARF_FP;
    f->row.cfa_in_word = false;
}

static void remember(function_t *f) {
    if (f->remembered_count == ROWS_MAX)
        f->unsupported = true;
    else
        f->remembered[f->remembered_count++] = f->row;
}

static void restore_state(function_t *f) {
    if (f->remembered_count == 0)
        f->unsupported = true;
    else
        f->row = f->remembered[--f->remembered_count];
}

/* Instructions about the CFA. False when it is none. */
static bool run_cfa(function_t *f, uint64_t op, unwind_bytes_t *from) {
    switch (op) {
    case CFA_DEF:
    case CFA_DEF_SF:
        set_cfa_register(f, unwind_read_uleb(from));
        f->row.cfa_offset =
            op == CFA_DEF ? (int64_t)unwind_read_uleb(from) : scaled(f, (uint64_t)unwind_read_sleb(from));
        return true;
    case CFA_DEF_REGISTER:
        set_cfa_register(f, unwind_read_uleb(from));
        return true;
    case CFA_DEF_OFFSET:
        f->row.cfa_offset = (int64_t)unwind_read_uleb(from);
        return true;
    case CFA_DEF_OFFSET_SF:
        f->row.cfa_offset = scaled(f, (uint64_t)unwind_read_sleb(from));
        return true;
    case CFA_DEF_EXPRESSION:
        cfa_by_expression(f, from);
        return true;
    default:
        return false;
    }
}

/* Those about a register, of which the first operand says which. False when it is none. */
static bool run_register(function_t *f, uint64_t op, unwind_bytes_t *from) {
    if (op < CFA_OFFSET_EXTENDED || op > CFA_VAL_EXPRESSION || op == CFA_REMEMBER || op == CFA_RESTORE_STATE)
        return false;
    const uint64_t which = unwind_read_uleb(from);
    place_t now = {UNWIND_LOST, 0};
    switch (op) {
    case CFA_OFFSET_EXTENDED:
        now = (place_t){UNWIND_AT_CFA, scaled(f, unwind_read_uleb(from))};
        break;
    case CFA_OFFSET_EXTENDED_SF:
        now = (place_t){UNWIND_AT_CFA, scaled(f, (uint64_t)unwind_read_sleb(from))};
        break;
    case CFA_SAME_VALUE:
        now.where = UNWIND_IN_REGISTER;
        break;
    case CFA_RESTORE_EXTENDED:
        restore(f, which);
        return true;
    case CFA_EXPRESSION:
        now = place_by_expression(from);
        break;
    case CFA_VAL_EXPRESSION:
        (void)part_next(from);
        break;
    case CFA_REGISTER:
    case CFA_VAL_OFFSET:
    case CFA_VAL_OFFSET_SF:
        (void)unwind_read_uleb(from);
        break;
    default:
        break;
    }
    set_place(f, which, now);
    if (op == CFA_UNDEFINED && which == SYS_DWARF_RETURN)
        f->row.is_outermost = true;
    return true;
}

/* Those about what is neither. */
static void run_other(function_t *f, uint64_t op, unwind_bytes_t *from) {
    switch (op) {
    case CFA_NOP:
        break;
    case CFA_REMEMBER:
        remember(f);
        break;
    case CFA_RESTORE_STATE:
        restore_state(f);
        break;
    case CFA_GNU_ARGS_SIZE:
        (void)unwind_read_uleb(from);
        break;
    case CFA_AARCH64_SIGNED: /* signed return addresses are known by their upper bits: sys_code_address */
    case CFA_AARCH64_SIGNED_WITH_PC:
        f->unsupported = f->unsupported || HK_X86_64;
        break;
    default:
        f->unsupported = true;
    }
}

/* The address from which on the next rows hold. False when the instruction does not say. */
static bool run_advance(const function_t *f, uint64_t op, unwind_bytes_t *from, uintptr_t *at) {
    if ((op & 0xc0) == CFA_ADVANCE)
        *at += (op & 0x3f) * f->code_unit;
    else if (op == CFA_SET_LOC)
        *at = unwind_read_encoded(from, f->encoding, false);
    else if (op == CFA_ADVANCE1 || op == CFA_ADVANCE2 || op == CFA_ADVANCE4)
        *at += unwind_read(from, 1u << (op - CFA_ADVANCE1)) * f->code_unit;
    else
        return false;
    return true;
}

/* Leaves the row that holds at `f->pc`. */
static void run(function_t *f, unwind_bytes_t program) {
    uintptr_t at = f->begin;
    if (program.end - program.at > RULE_BYTES_MAX)
        f->unsupported = true;
    while (!f->unsupported && !program.bad && program.at < program.end) {
        const uint64_t op = unwind_read(&program, 1);
        if (run_advance(f, op, &program, &at)) {
            if (at > f->pc)
                return;
        } else if ((op & 0xc0) == CFA_OFFSET) {
            const int64_t offset = scaled(f, unwind_read_uleb(&program));
            set_place(f, op & 0x3f, (place_t){UNWIND_AT_CFA, offset});
        } else if ((op & 0xc0) == CFA_RESTORE) {
            restore(f, op & 0x3f);
        } else if (!run_cfa(f, op, &program) && !run_register(f, op, &program)) {
            run_other(f, op, &program);
        }
    }
    f->unsupported = f->unsupported || program.bad;
}

/* --- Finding it --------------------------------------------------------------------------------------------------- */

/* The part of the tables that begins at `at` with its length. */
static unwind_bytes_t entry_at(unwind_module_t *m, uintptr_t at) {
    unwind_bytes_t entry = {.module = m, .at = at, .end = m->end};
    const uint64_t length = unwind_read(&entry, 4);
    if (entry.bad || length == 0 || length >= 0xfffffff0 || length > entry.end - entry.at)
        entry.bad = true;
    else
        entry.end = entry.at + length;
    return entry;
}

/* What comes with the letters of a CIE behind its "z". */
static void read_letters(function_t *f, unwind_bytes_t letters, unwind_bytes_t *data) {
    for (uint64_t letter; (letter = unwind_read(&letters, 1)) != 0;) {
        if (letter == 'R')
            f->encoding = (unsigned)unwind_read(data, 1);
        else if (letter == 'P')
            (void)unwind_read_encoded(data, (unsigned)unwind_read(data, 1), true);
        else if (letter == 'L')
            (void)unwind_read(data, 1);
        else if (letter == 'S')
            f->is_signal = true;
        else if (letter != 'B' && letter != 'G') /* aarch64: the other key signs, memory is tagged */
            f->unsupported = true;
    }
}

/* The common information entry of several functions. Runs what is common. */
static bool read_cie(function_t *f, unwind_module_t *m, uintptr_t at) {
    unwind_bytes_t cie = entry_at(m, at);
    const bool is_cie = unwind_read(&cie, 4) == 0;
    const uint64_t version = unwind_read(&cie, 1);
    unwind_bytes_t letters = cie;
    while (unwind_read(&cie, 1) != 0) {
    }
    f->code_unit = unwind_read_uleb(&cie);
    f->data_unit = unwind_read_sleb(&cie);
    const uint64_t return_register = version == 1 ? unwind_read(&cie, 1) : unwind_read_uleb(&cie);
    if (cie.bad || !is_cie || (version != 1 && version != 3) || return_register != SYS_DWARF_RETURN)
        return false;
    unwind_bytes_t first = letters;
    if (unwind_read(&first, 1) == 'z') {
        unwind_bytes_t data = part_next(&cie);
        f->has_data = true;
        read_letters(f, first, &data);
        f->unsupported = f->unsupported || data.bad;
    } else if (unwind_read(&letters, 1) != 0) {
        return false;
    }
    const uintptr_t pc = f->pc;
    f->pc = UINTPTR_MAX;
    run(f, cie);
    f->pc = pc;
    f->initial = f->row;
    return !f->unsupported;
}

/* The frame description entry of a function. */
static unwind_rule_kind_t read_fde(function_t *f, unwind_module_t *m, uintptr_t at) {
    unwind_bytes_t fde = entry_at(m, at);
    const uintptr_t field = fde.at;
    const uint64_t back = unwind_read(&fde, 4);
    if (fde.bad || back == 0 || back > field - m->start || !read_cie(f, m, field - back))
        return UNWIND_RULE_UNSUPPORTED;
    f->begin = unwind_read_encoded(&fde, f->encoding, false);
    f->size = unwind_read_encoded(&fde, f->encoding & 0x0f, true);
    if (f->has_data)
        (void)part_next(&fde);
    if (fde.bad)
        return UNWIND_RULE_UNSUPPORTED;
    if (f->pc - f->begin >= f->size)
        return UNWIND_RULE_NOT_COVERED;
    run(f, fde);
    if (f->row.is_outermost)
        return UNWIND_RULE_OUTERMOST;
    return f->unsupported || !f->row.cfa_known ? UNWIND_RULE_UNSUPPORTED : UNWIND_RULE_FRAME;
}

/* By halves: the entry of the last function that begins at `pc` or before; 0 when there is none. */
static uintptr_t search(unwind_module_t *m, uintptr_t pc) {
    enum { ENTRY_BYTES = 8 };
    unwind_bytes_t header = {.module = m, .at = m->tables, .end = m->end};
    const uint64_t version = unwind_read(&header, 1);
    const unsigned frames = (unsigned)unwind_read(&header, 1), counts = (unsigned)unwind_read(&header, 1);
    if (version != 1 || unwind_read(&header, 1) != ENCODING_TABLE || counts == ENCODING_OMIT)
        return 0;
    if (frames != ENCODING_OMIT)
        (void)unwind_read_encoded(&header, frames, true);
    const uint64_t count = unwind_read_encoded(&header, counts, false);
    const uintptr_t table = header.at;
    uint64_t from = 0, to = count;
    if (header.bad || count > (m->end - table) / ENTRY_BYTES)
        return 0;
    while (from < to) {
        const uint64_t middle = (from + to) / 2;
        header.at = table + middle * ENTRY_BYTES;
        if (m->tables + (uint64_t)(int64_t)(int32_t)unwind_read(&header, 4) <= pc)
            from = middle + 1;
        else
            to = middle;
    }
    if (from == 0)
        return 0;
    header.at = table + (from - 1) * ENTRY_BYTES + 4;
    const uintptr_t entry = m->tables + (uint64_t)(int64_t)(int32_t)unwind_read(&header, 4);
    return header.bad ? 0 : entry;
}

/* The offset in words, from the least; more than all when it does not fit. */
static uint64_t words_of(place_t place) {
    const uint64_t words = (uint64_t)(place.offset / 8 + UNWIND_WORDS_LEAST);
    return place.offset % 8 == 0 ? words : UINT64_MAX;
}

static unwind_rule_t pack(const function_t *f) {
    const row_t *row = &f->row;
    const uint64_t cfa = (uint64_t)row->cfa_offset + UNWIND_CFA_LEAST;
    const uint64_t return_words = words_of(row->ret), fp_words = words_of(row->fp);
    if (cfa >= 2 * UNWIND_CFA_LEAST || return_words >= 2 * UNWIND_WORDS_LEAST || fp_words >= 2 * UNWIND_WORDS_LEAST ||
        row->ret.where == UNWIND_LOST)
        return (unwind_rule_t){.kind = UNWIND_RULE_UNSUPPORTED};
    return (unwind_rule_t){.kind = UNWIND_RULE_FRAME,
                           .cfa_on_fp = row->cfa_on_fp,
                           .cfa_in_word = row->cfa_in_word,
                           .is_signal = f->is_signal,
                           .return_place = row->ret.where & 7,
                           .fp_place = row->fp.where & 7,
                           .cfa_offset = cfa & (2 * UNWIND_CFA_LEAST - 1),
                           .return_words = return_words & (2 * UNWIND_WORDS_LEAST - 1),
                           .fp_words = fp_words & (2 * UNWIND_WORDS_LEAST - 1)};
}

unwind_rule_t unwind_rule_of(unwind_module_t *module, uintptr_t pc) {
    function_t f = {.pc = pc};
    const uintptr_t entry = module->tables != 0 ? search(module, pc) : 0;
    if (entry == 0)
        return (unwind_rule_t){.kind = UNWIND_RULE_NOT_COVERED};
    const unwind_rule_kind_t kind = read_fde(&f, module, entry);
    return kind == UNWIND_RULE_FRAME ? pack(&f) : (unwind_rule_t){.kind = kind & 7};
}
