/* SPDX-License-Identifier: MIT
 *
 * format.h: a heap profile, as it lies in memory and in a file: docs/profile-format.md, for who reads it.
 *
 * The tables are the ones that the sampler works with. Nothing in them is an address of theirs: places are indices, so
 * a copy of the bytes is as good as the original. In memory the header is `hk_profile` (tables.h) and sections say
 * where a table's pieces lie; in a file they say where in the file.
 *
 * FORMAT-1  A table only grows, in pieces that stay where they are. An entry is complete before its section's `bytes`
 *           include it.
 * FORMAT-2  Entry 0 of stacks, sites and samples is none.
 * FORMAT-3  Little endian; every field at a multiple of its size; no padding. What is `reserved` is 0.
 * FORMAT-4  Layouts of format 1 do not change. New section kinds and flags may come, and readers leave out those that
 *           they do not know.
 */
#pragma once

#include "base/base.h"

#define PROFILE_MAGIC  "hakmem-profile" /* with NULs up to 16 bytes */
#define PROFILE_FORMAT 1

enum {
    PROFILE_BYTES_SHIFT = 4,    /* sums of bytes are in units of 1/16 */
    PROFILE_OBJECTS_SHIFT = 10, /* sums of objects are in units of 1/1024 */
    PROFILE_LIFETIMES = 16,
    PROFILE_TIMELINE_POINTS = 1024,
    PROFILE_NAME_BYTES = 16,
    PROFILE_SECTIONS = 64, /* places in memory; a file has as many as it needs */
};

typedef enum profile_kind {
    PROFILE_UNUSED = 0,
    PROFILE_STACKS = 1,   /* profile_stack_t */
    PROFILE_SAMPLES = 2,  /* profile_sample_t */
    PROFILE_SITES = 3,    /* profile_site_t */
    PROFILE_TIMELINE = 4, /* profile_point_t, in the order of time */
    PROFILE_THREADS = 5,  /* profile_thread_t */
    PROFILE_MAPS = 6,     /* text: /proc/self/maps; in files alone */
    PROFILE_OPTIONS = 7,  /* text: NAME=value a line; in files alone */
    PROFILE_FIGURES = 8,  /* text: name=bytes a line, where the memory of the process is; in files alone */
} profile_kind_t;

enum {
    PROFILE_IS_LIVE = 1,   /* in memory: `place` of a section is an address */
    PROFILE_IS_ACTIVE = 2, /* allocations are being sampled, */
    PROFILE_IS_ASKED = 4,  /* ... because a tool outside has asked for it, who is to end it */
};

/* In place of an address of code, at the outermost end of a stack that is not whole: why. */
enum {
    PROFILE_STACK_DEEPER = 1,       /* more frames than are kept */
    PROFILE_STACK_NO_TABLES = 2,    /* code without unwind tables or frame pointers */
    PROFILE_STACK_UNSUPPORTED = 3,  /* unwind tables of a kind that is not supported */
    PROFILE_STACK_OUT_OF_PLACE = 4, /* the next frame is not on the stack */
    PROFILE_STACK_NO_ROOM = 5,      /* the table of stacks is full: no frame is known */
    PROFILE_STACK_CODE_MIN = 4096,  /* what is less is no address */
};

typedef struct profile_section {
    uint32_t kind;
    uint32_t stride; /* bytes of an entry; 1 for text */
    uint64_t place;  /* from the start of the file, or an address */
    uint64_t bytes;  /* in use */
} profile_section_t;

typedef struct profile_header {
    char magic[16]; /* all 0 in memory when there was never a profile */
    uint32_t format;
    uint32_t header_bytes; /* the sections follow */
    uint32_t section_count, section_stride;
    uint32_t flags;
    uint32_t process_id;
    uint32_t library_version;            /* major * 10000 + minor * 100 + patch */
    uint32_t machine;                    /* EM_X86_64 (62), EM_AARCH64 (183) */
    uint32_t resets;                     /* differs before and after: what was read in between is of two profiles */
    uint32_t interval_log2;              /* now: 2^n bytes on average between samples; 0 is each allocation */
    uint32_t first_interval_log2;        /* as it was asked for */
    uint32_t thinnings;                  /* the interval grew to twice as much so often, as tables were full */
    uint64_t start_unix_ns;              /* when the profile was started or reset */
    uint64_t elapsed_us;                 /* from there to the last event, the writing of the file, or the stop */
    uint64_t samples;                    /* allocations sampled */
    uint64_t lost;                       /* ... that found no memory for their record */
    uint64_t alloc_bytes, alloc_objects; /* sums, as those of all sites */
    uint64_t live_bytes, live_objects;
    uint64_t peak_bytes, peak_objects; /* live at the peak */
    uint64_t peak_us;                  /* when that was */
    uint32_t peak_epoch;
    uint32_t longest_log2; /* of the intervals that threads had of their own (pace.h); 0: none had one */
} profile_header_t;

/* A node of the tree of stacks: a frame and who called it. A stack is named by its innermost frame. */
typedef struct profile_stack {
    uint64_t pc;     /* a return address; PROFILE_STACK_* when it is less than PROFILE_STACK_CODE_MIN */
    uint32_t parent; /* the caller; 0: there is none, the stack is whole */
    uint32_t next;   /* for the sampler */
} profile_stack_t;

/* A sampled block that has not been freed. */
typedef struct profile_sample {
    uint64_t address; /* 0: unused */
    uint64_t size;    /* as asked for */
    uint64_t time_us; /* since the start; of the allocation */
    uint32_t site;
    uint32_t slack;        /* usable bytes beyond the size, at most UINT32_MAX */
    uint32_t thread;       /* of the allocation, by the kernel's number */
    uint32_t heap;         /* by our number; 1: of a thread without a heap */
    uint32_t next;         /* for the sampler */
    uint8_t interval_log2; /* with which it counts */
    uint8_t flags;         /* PROFILE_SAMPLE_* */
    uint16_t reserved;
} profile_sample_t;

enum {
    PROFILE_SAMPLE_HAS_BIT = 1, /* its live bit is clear while it is with the program; set: it was freed unnoticed */
};

/* All allocations with one stack. Sums are estimates of what the program did: each sample counts by the reciprocal of
 * its probability. */
typedef struct profile_site {
    uint32_t stack;
    uint32_t next;                        /* for the sampler */
    uint64_t alloc_samples, free_samples; /* as they are, without weight */
    uint64_t alloc_bytes, alloc_objects;
    uint64_t free_bytes, free_objects;
    uint64_t live_bytes, live_objects;
    uint64_t peak_bytes,
        peak_objects; /* live at the peak, if peak_epoch is that of the header; else it is as live now */
    uint32_t peak_epoch;
    uint32_t reserved;
    uint64_t same_thread_objects; /* freed by the thread that allocated them */
    uint64_t temporary_bytes;     /* ... within a millisecond */
    uint64_t temporary_objects;
    uint64_t lifetimes
        [PROFILE_LIFETIMES]; /* objects freed, by age: from 4^n us to 4^(n+1), the first from 0, the last without end */
    uint64_t reserved_2;
} profile_site_t;

typedef struct profile_point {
    uint64_t time_us;
    uint64_t live_bytes, live_objects; /* sums */
    uint64_t resident_bytes;           /* of the process, whole bytes; 0: not known */
    uint64_t mapped_bytes;             /* by the allocator, whole bytes */
    uint64_t interval_log2;
} profile_point_t;

typedef struct profile_thread {
    uint32_t thread; /* 0: unused */
    uint32_t heap;
    char name[PROFILE_NAME_BYTES];
} profile_thread_t;

_Static_assert(sizeof(profile_section_t) == 24 && sizeof(profile_header_t) == 160, "FORMAT-3");
_Static_assert(sizeof(profile_stack_t) == 16 && sizeof(profile_sample_t) == 48, "FORMAT-3");
_Static_assert(sizeof(profile_site_t) == 256 && sizeof(profile_point_t) == 48, "FORMAT-3");
_Static_assert(sizeof(profile_thread_t) == 24, "FORMAT-3");

/* As it lies in memory. */
typedef struct profile {
    profile_header_t header;
    profile_section_t sections[PROFILE_SECTIONS];
} profile_t;

_Static_assert(offsetof(profile_t, sections) == sizeof(profile_header_t), "the sections follow the header");
