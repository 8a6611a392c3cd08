// SPDX-License-Identifier: (MIT OR GPL-2.0)
//
// The two programs that the kernel runs at entry and return of NCCL's functions: each puts an event into a
// ring. scripts/build-bpf.sh makes calls.bpf.o from this file. The loader in ../src makes the maps and checks
// that the sizes of the events are the same there (../src/event.rs).
//
// The helpers that read memory and the clock are only for programs with a licence that fits the GPL, so this
// one file has two licences. It includes nothing, so that any compiler with a BPF target builds it.
//
// What a place needs is in its cookie (../src/probes.rs):
//
//   bits 0-15   number of the function
//   bits 16-19  0, or 1 + the number of the argument that points to where the function puts a result
//   bit  20     a unique id of 128 bytes lies on the stack, behind the return address
//   bit  21     argument 4 points to a unique id
//   bit  22     only processes in `watched` count
//   bits 32-63  what the caller gave: comes back in each event

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))

// Registers at a probe on x86-64, as the kernel lays them out for a program.
struct registers {
    u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct head {
    u64 time;     // CLOCK_MONOTONIC, ns
    u32 process;  // as the machine itself numbers them
    u32 thread;
    u32 given;    // bits 32-63 of the cookie
    u16 function;
    u16 kind;
};

struct entered {
    struct head head;
    u64 arguments[8];  // six of registers, two of the stack
};

struct entered_with_id {
    struct entered entered;
    u8 id[128];
};

struct returned {
    struct head head;
    u64 code;
    u64 result;  // what the function put where its argument points; 0 none
};

enum { ENTERED = 1, ENTERED_WITH_ID = 2, RETURNED = 3 };

// The loader replaces references to these four by descriptors of maps that it made.
struct map {
    u32 unused;
};
struct map events SECTION(".maps");   // a ring buffer
struct map lost SECTION(".maps");     // hash: process -> struct losses
struct map results SECTION(".maps");  // LRU hash: process and thread -> address of a result
struct map watched SECTION(".maps");  // hash: process -> anything

struct losses {
    u64 entered;
    u64 returned;
};

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const forget)(void *map, const void *key) = (void *)3;
static u64 (*const now)(void) = (void *)5;
static u64 (*const process_and_thread)(void) = (void *)14;
static long (*const read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static void *(*const reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*const submit)(void *event, u64 flags) = (void *)132;
static u64 (*const cookie_of)(void *context) = (void *)174;

// A value that the compiler may not replace by another way to compute it.
#define KEPT(value) ({ u64 kept = (value); __asm__ volatile("" : "+r"(kept)); kept; })

// The reader looks into the ring by itself every few milliseconds: a wake-up would cost the job more.
#define NO_WAKEUP 1

static inline __attribute__((always_inline)) int is_watched(u64 cookie, u64 who) {
    u32 process = who >> 32;
    return !(cookie & 1 << 22) || lookup(&watched, &process);
}

static inline __attribute__((always_inline)) void count_lost(u64 who, int is_return) {
    u32 process = who >> 32;
    struct losses *counts = lookup(&lost, &process);
    if (!counts) {
        struct losses none = {0, 0};
        update(&lost, &process, &none, 1 /* if there is none */);
        counts = lookup(&lost, &process);
    }
    if (counts) {
        __sync_fetch_and_add(is_return ? &counts->returned : &counts->entered, 1);
    }
}

static inline __attribute__((always_inline)) void fill_head(struct head *head, u64 cookie, u64 who,
                                                            u16 kind) {
    head->time = now();
    head->process = who >> 32;
    head->thread = (u32)who;
    head->given = cookie >> 32;
    head->function = (u16)cookie;
    head->kind = kind;
}

static inline __attribute__((always_inline)) void fill_entered(struct entered *to, struct registers *at) {
    to->arguments[0] = at->di;
    to->arguments[1] = at->si;
    to->arguments[2] = at->dx;
    to->arguments[3] = at->cx;
    to->arguments[4] = at->r8;
    to->arguments[5] = at->r9;
    to->arguments[6] = 0;
    to->arguments[7] = 0;
    read_user(&to->arguments[6], 16, (const void *)(at->sp + 8));
}

SECTION("entry") int on_entry(struct registers *at) {
    u64 cookie = cookie_of(at);
    u64 who = process_and_thread();
    if (!is_watched(cookie, who)) return 0;

    u32 result = cookie >> 16 & 15;
    if (result) {
        // The kernel wants the place of a register in the code, so these stay four loads.
        u64 address = at->di;
        if (result == 2) address = KEPT(at->si);
        if (result == 3) address = KEPT(at->dx);
        if (result == 4) address = KEPT(at->cx);
        update(&results, &who, &address, 0);
    }
    if (cookie & (1 << 20 | 1 << 21)) {
        struct entered_with_id *event = reserve(&events, sizeof *event, 0);
        if (!event) {
            count_lost(who, 0);
            return 0;
        }
        fill_head(&event->entered.head, cookie, who, ENTERED_WITH_ID);
        fill_entered(&event->entered, at);
        u64 from = cookie & 1 << 20 ? at->sp + 8 : at->r8;
        if (read_user(event->id, sizeof event->id, (const void *)from)) {
            event->entered.head.kind = ENTERED;
        }
        submit(event, NO_WAKEUP);
        return 0;
    }
    struct entered *event = reserve(&events, sizeof *event, 0);
    if (!event) {
        count_lost(who, 0);
        return 0;
    }
    fill_head(&event->head, cookie, who, ENTERED);
    fill_entered(event, at);
    submit(event, NO_WAKEUP);
    return 0;
}

SECTION("return") int on_return(struct registers *at) {
    u64 cookie = cookie_of(at);
    u64 who = process_and_thread();
    if (!is_watched(cookie, who)) return 0;

    u64 result = 0;
    if (cookie >> 16 & 15) {
        u64 *address = lookup(&results, &who);
        if (address) {
            read_user(&result, sizeof result, (const void *)*address);
            forget(&results, &who);
        }
    }
    struct returned *event = reserve(&events, sizeof *event, 0);
    if (!event) {
        count_lost(who, 1);
        return 0;
    }
    fill_head(&event->head, cookie, who, RETURNED);
    event->code = at->ax;
    event->result = result;
    submit(event, NO_WAKEUP);
    return 0;
}

char _license[] SECTION("license") = "Dual MIT/GPL";
