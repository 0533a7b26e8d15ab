/* SPDX-License-Identifier: MIT
 *
 * cxx.c: the C++ operators, by their mangled names, from C. Compiled with -fexceptions, so that bad_alloc can pass.
 *
 * Three rules of C++ shape this file ([new.delete], [replacement.functions]):
 *
 *   1. A throwing operator that finds no memory calls the new_handler until there is memory or no handler, and then
 *      throws bad_alloc. The C++ runtime of the program does both (cxx_runtime.h).
 *   2. A nothrow operator calls the handler too and answers NULL, also when the handler throws. C cannot catch, so that
 *      case goes to the runtime's own nothrow operator, which calls the throwing operator (ours) inside a try block.
 *   3. A program may replace a few operators and keep the rest. The array, sized and nothrow forms are defined to
 *      call a more basic form, so they ask whether the basic form in force is ours before they take their own short
 *      way. All are weak, so that in a static program each can be replaced alone.
 */
#include "base/bits.h"
#include "front/calls.h"
#include "front/front.h"
#include "shim/cxx_runtime.h"

#define CXX_OPERATOR HK_EXPORT __attribute__((weak))
#define CXX_ALIAS(f) HK_EXPORT __attribute__((weak, alias(#f)))

typedef struct nothrow nothrow_t; /* std::nothrow_t; never looked at */
typedef void *(*nothrow_fn)(size_t, const nothrow_t *);
typedef void *(*nothrow_aligned_fn)(size_t, size_t, const nothrow_t *);

/* A nothrow operator and the throwing one that it is defined to call; one of the two is set. */
typedef struct nothrow_form {
    const char *name;
    void *(*basic)(size_t);
    void *(*basic_aligned)(size_t, size_t);
} nothrow_form_t;

static const char VERB_DELETE[] = "operator delete";
static const char VERB_DELETE_ARRAY[] = "operator delete[]";

/* An alignment that is not a power of two is undefined; it is treated as what no memory can satisfy. */
HK_INLINE void *new_aligned(size_t size, size_t alignment) {
    return hk_likely(hk_is_pow2(alignment)) ? front_aligned(alignment, size) : NULL;
}

/* --- The slow ways. `alignment` 0: none was asked for ------------------------------------------------------------- */

static void *allocate(size_t size, size_t alignment) {
    return alignment == 0 ? front_malloc(size) : new_aligned(size, alignment);
}

/* NULL when there is no handler any more. None could help an alignment that is not a power of two. */
static HK_COLD void *by_handler(size_t size, size_t alignment) {
    void *p = NULL;
    hk_new_handler_t handler;
    while (p == NULL && (alignment == 0 || hk_is_pow2(alignment)) && (handler = cxx_new_handler()) != NULL) {
        handler();
        p = allocate(size, alignment);
    }
    return p;
}

static HK_COLD void *new_slow(size_t size, size_t alignment) {
    void *p = by_handler(size, alignment);
    if (p == NULL)
        cxx_throw_bad_alloc();
    return p;
}

static void *nothrow_by_runtime(void *operator_new, size_t size, size_t alignment) {
    static const char tag;
    const nothrow_t *nothrow = (const nothrow_t *)(const void *)&tag;
    return alignment == 0 ? ((nothrow_fn)operator_new)(size, nothrow)
                          : ((nothrow_aligned_fn)operator_new)(size, alignment, nothrow);
}

/* Our memory ran out. */
static HK_COLD void *nothrow_slow(const nothrow_form_t *form, size_t size, size_t alignment) {
    if (cxx_new_handler() == NULL || !(alignment == 0 || hk_is_pow2(alignment)))
        return NULL;
    void *operator_new = cxx_runtime_symbol(form->name);
    /* Without a runtime to catch, in a static program: the handler must not throw. */
    return operator_new != NULL ? nothrow_by_runtime(operator_new, size, alignment) : by_handler(size, alignment);
}

/* The program has its own throwing operator: the memory must come from there. */
static HK_COLD void *nothrow_replaced(const nothrow_form_t *form, size_t size, size_t alignment) {
    void *operator_new = cxx_runtime_symbol(form->name);
    if (operator_new != NULL)
        return nothrow_by_runtime(operator_new, size, alignment);
    return alignment == 0 ? form->basic(size) : form->basic_aligned(size, alignment);
}

/* --- new: throwing ------------------------------------------------------------------------------------------------ */

/* What operator new does when the fast path has no block, and has charged the request: a tail call, so that the fast
 * path needs no frame. */
static HK_NOINLINE void *new_refill(size_t size) {
    void *p = heap_malloc_slow(size);
    return hk_likely(p != NULL) ? p : new_slow(size, 0);
}

static HK_FAST void *cxx_new(size_t size) { return front_malloc_or(size, new_refill); }
CXX_ALIAS(cxx_new) void *_Znwm(size_t size);

static void *cxx_new_array(size_t size) {
    if (hk_unlikely(_Znwm != cxx_new))
        return _Znwm(size);
    return front_malloc_or(size, new_refill);
}
CXX_ALIAS(cxx_new_array) void *_Znam(size_t size);

static HK_NOINLINE void *cxx_new_aligned(size_t size, size_t alignment) {
    void *p = new_aligned(size, alignment);
    return hk_likely(p != NULL) ? p : new_slow(size, alignment);
}
CXX_ALIAS(cxx_new_aligned) void *_ZnwmSt11align_val_t(size_t size, size_t alignment);

static void *cxx_new_array_aligned(size_t size, size_t alignment) {
    const bool replaced = _ZnwmSt11align_val_t != cxx_new_aligned;
    return hk_unlikely(replaced) ? _ZnwmSt11align_val_t(size, alignment) : cxx_new_aligned(size, alignment);
}
CXX_ALIAS(cxx_new_array_aligned) void *_ZnamSt11align_val_t(size_t size, size_t alignment);

HK_INLINE bool new_replaced(void) { return _Znwm != cxx_new; }
HK_INLINE bool new_array_replaced(void) { return _Znam != cxx_new_array || new_replaced(); }
HK_INLINE bool new_aligned_replaced(void) { return _ZnwmSt11align_val_t != cxx_new_aligned; }
HK_INLINE bool new_array_aligned_replaced(void) {
    return _ZnamSt11align_val_t != cxx_new_array_aligned || new_aligned_replaced();
}

/* --- new: nothrow ------------------------------------------------------------------------------------------------- */

static const nothrow_form_t form_new = {"_ZnwmRKSt9nothrow_t", _Znwm, NULL};
static const nothrow_form_t form_new_array = {"_ZnamRKSt9nothrow_t", _Znam, NULL};
static const nothrow_form_t form_new_aligned = {"_ZnwmSt11align_val_tRKSt9nothrow_t", NULL, _ZnwmSt11align_val_t};
static const nothrow_form_t form_new_array_aligned = {"_ZnamSt11align_val_tRKSt9nothrow_t", NULL, _ZnamSt11align_val_t};

HK_INLINE void *new_nothrow(const nothrow_form_t *form, bool replaced, size_t size) {
    if (hk_unlikely(replaced))
        return nothrow_replaced(form, size, 0);
    void *p = front_malloc(size);
    return hk_likely(p != NULL) ? p : nothrow_slow(form, size, 0);
}

HK_INLINE void *new_nothrow_aligned(const nothrow_form_t *form, bool replaced, size_t size, size_t alignment) {
    if (hk_unlikely(replaced))
        return nothrow_replaced(form, size, alignment);
    void *p = new_aligned(size, alignment);
    return hk_likely(p != NULL) ? p : nothrow_slow(form, size, alignment);
}

CXX_OPERATOR void *_ZnwmRKSt9nothrow_t(size_t size, const nothrow_t *tag) {
    (void)tag;
    return new_nothrow(&form_new, new_replaced(), size);
}

CXX_OPERATOR void *_ZnamRKSt9nothrow_t(size_t size, const nothrow_t *tag) {
    (void)tag;
    return new_nothrow(&form_new_array, new_array_replaced(), size);
}

CXX_OPERATOR void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const nothrow_t *tag) {
    (void)tag;
    return new_nothrow_aligned(&form_new_aligned, new_aligned_replaced(), size, alignment);
}

CXX_OPERATOR void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const nothrow_t *tag) {
    (void)tag;
    return new_nothrow_aligned(&form_new_array_aligned, new_array_aligned_replaced(), size, alignment);
}

/* --- new that tells the size -------------------------------------------------------------------------------------- */

/* Forms that TCMalloc has and compilers may call: as operator new, with the usable size beside the block. A block of
 * the program's own operator has the size that was asked for. The hint of how often a block is used says nothing to
 * us. */
typedef struct sized_block {
    void *p;
    size_t n;
} sized_block_t;

static sized_block_t with_size(void *p, size_t size, bool replaced) {
    if (p == NULL)
        return (sized_block_t){NULL, 0};
    return (sized_block_t){p, replaced ? size : front_usable_size(p)};
}

static sized_block_t sized_new(size_t size) { return with_size(_Znwm(size), size, new_replaced()); }

static sized_block_t sized_new_nothrow(size_t size) {
    return with_size(new_nothrow(&form_new, new_replaced(), size), size, new_replaced());
}

static sized_block_t sized_new_aligned(size_t size, size_t alignment) {
    return with_size(_ZnwmSt11align_val_t(size, alignment), size, new_aligned_replaced());
}

static sized_block_t sized_new_aligned_nothrow(size_t size, size_t alignment) {
    if (!hk_is_pow2(alignment))
        return (sized_block_t){NULL, 0};
    const bool replaced = new_aligned_replaced();
    return with_size(new_nothrow_aligned(&form_new_aligned, replaced, size, alignment), size, replaced);
}

CXX_OPERATOR sized_block_t __size_returning_new(size_t size) { return sized_new(size); }
CXX_OPERATOR sized_block_t __size_returning_new_nothrow(size_t size) { return sized_new_nothrow(size); }
CXX_OPERATOR sized_block_t __size_returning_new_aligned(size_t size, size_t alignment) {
    return sized_new_aligned(size, alignment);
}
CXX_OPERATOR sized_block_t __size_returning_new_aligned_nothrow(size_t size, size_t alignment) {
    return sized_new_aligned_nothrow(size, alignment);
}

CXX_OPERATOR sized_block_t __size_returning_new_hot_cold(size_t size, uint8_t hint) {
    (void)hint;
    return sized_new(size);
}
CXX_OPERATOR sized_block_t __size_returning_new_nothrow_hot_cold(size_t size, uint8_t hint) {
    (void)hint;
    return sized_new_nothrow(size);
}
CXX_OPERATOR sized_block_t __size_returning_new_aligned_hot_cold(size_t size, size_t alignment, uint8_t hint) {
    (void)hint;
    return sized_new_aligned(size, alignment);
}
CXX_OPERATOR sized_block_t __size_returning_new_aligned_nothrow_hot_cold(size_t size, size_t alignment, uint8_t hint) {
    (void)hint;
    return sized_new_aligned_nothrow(size, alignment);
}

/* --- delete: plain and nothrow ------------------------------------------------------------------------------------ */

static HK_FAST void cxx_delete(void *p) { front_free(p); }
CXX_ALIAS(cxx_delete) void _ZdlPv(void *p);

static HK_FAST void cxx_delete_array(void *p) {
    if (hk_unlikely(_ZdlPv != cxx_delete))
        _ZdlPv(p);
    else
        front_free(p);
}
CXX_ALIAS(cxx_delete_array) void _ZdaPv(void *p);

CXX_OPERATOR void _ZdlPvRKSt9nothrow_t(void *p, const nothrow_t *tag) {
    (void)tag;
    _ZdlPv(p);
}

CXX_OPERATOR void _ZdaPvRKSt9nothrow_t(void *p, const nothrow_t *tag) {
    (void)tag;
    _ZdaPv(p);
}

/* --- delete: aligned ---------------------------------------------------------------------------------------------- */

static HK_NOINLINE void cxx_delete_aligned(void *p, size_t alignment) {
    (void)alignment;
    front_free(p);
}
CXX_ALIAS(cxx_delete_aligned) void _ZdlPvSt11align_val_t(void *p, size_t alignment);

static void cxx_delete_array_aligned(void *p, size_t alignment) {
    if (hk_unlikely(_ZdlPvSt11align_val_t != cxx_delete_aligned))
        _ZdlPvSt11align_val_t(p, alignment);
    else
        cxx_delete_aligned(p, alignment);
}
CXX_ALIAS(cxx_delete_array_aligned) void _ZdaPvSt11align_val_t(void *p, size_t alignment);

CXX_OPERATOR void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment, const nothrow_t *tag) {
    (void)tag;
    _ZdlPvSt11align_val_t(p, alignment);
}

CXX_OPERATOR void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment, const nothrow_t *tag) {
    (void)tag;
    _ZdaPvSt11align_val_t(p, alignment);
}

/* --- delete: sized ------------------------------------------------------------------------------------------------ */

CXX_OPERATOR void _ZdlPvm(void *p, size_t size) {
    if (hk_unlikely(_ZdlPv != cxx_delete))
        _ZdlPv(p);
    else
        front_free_sized(p, size, VERB_DELETE);
}

CXX_OPERATOR void _ZdaPvm(void *p, size_t size) {
    if (hk_unlikely(_ZdaPv != cxx_delete_array || _ZdlPv != cxx_delete))
        _ZdaPv(p);
    else
        front_free_sized(p, size, VERB_DELETE_ARRAY);
}

CXX_OPERATOR void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t alignment) {
    if (hk_unlikely(_ZdlPvSt11align_val_t != cxx_delete_aligned))
        _ZdlPvSt11align_val_t(p, alignment);
    else
        front_free_aligned_sized(p, alignment, size, VERB_DELETE);
}

CXX_OPERATOR void _ZdaPvmSt11align_val_t(void *p, size_t size, size_t alignment) {
    if (hk_unlikely(_ZdaPvSt11align_val_t != cxx_delete_array_aligned || _ZdlPvSt11align_val_t != cxx_delete_aligned))
        _ZdaPvSt11align_val_t(p, alignment);
    else
        front_free_aligned_sized(p, alignment, size, VERB_DELETE_ARRAY);
}
