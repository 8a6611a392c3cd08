// SPDX-License-Identifier: (MIT OR GPL-2.0)
//
// The programs that the kernel runs for `ncclscope attach`: at entry and return of NCCL's functions, and with
// --sched at context switches and soft interrupts. Each puts events into a ring. scripts/build-bpf.sh makes
// calls.x86_64.bpf.o and calls.aarch64.bpf.o from this file. The loader in ../src makes the maps and checks
// that the sizes of the events are the same there (../src/event.rs).
//
// The helpers that read memory and the clock are only for programs with a licence that fits the GPL, so this
// one file has two licences. It includes nothing, so that any compiler with a BPF target builds it.
//
// What a place needs is in its cookie (../src/probes.rs):
//
//   bits 0-15   number of the function
//   bits 16-19  0, or 1 + the number of the argument that points to where the function puts a result
//   bit  20     x86-64: a unique id of 128 bytes lies on the stack, behind the return address
//   bit  21     x86-64: argument 4 points to a unique id
//   bits 24-27  aarch64: 0, or 1 + the number of the argument that points to a unique id
//   bit  22     only processes in `watched` count
//   bit  23     the scheduler is watched for threads that come here
//   bits 32-63  what the caller gave: comes back in each event

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))

// Registers at a probe, as the kernel lays them out for a program.
#ifdef AARCH64
struct registers {
    u64 x[31], sp, pc, state;
};
#define RESULT_OF(at) ((at)->x[0])
#define ARGUMENT(at, number) ((at)->x[number])
#else
struct registers {
    u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define RESULT_OF(at) ((at)->ax)
#endif

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
    u64 arguments[8];  // x86-64: six of registers, two of the stack; aarch64: all of registers
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

// A thread that was off its CPU for LEAST or longer is back.
struct switched {
    struct head head;
    u64 from;       // it left its CPU
    u64 woken;      // it was ready again; 0 if that was not seen
    u64 preempted;  // 1: it was ready all the time
};

// Soft interrupts took time of a thread, since the last event of this kind.
struct interrupted {
    struct head head;
    u64 ns;
};

enum { ENTERED = 1, ENTERED_WITH_ID = 2, RETURNED = 3, SWITCHED = 4, INTERRUPTED = 5 };

// As `LEAST_NS` of crates/capture/src/switches.rs.
#define LEAST 20000

// The loader replaces references to these by descriptors of maps that it made.
struct map {
    u32 unused;
};
struct map events SECTION(".maps");   // a ring buffer
struct map lost SECTION(".maps");     // hash: struct who -> struct losses
struct map results SECTION(".maps");  // LRU hash: process and thread -> address of a result
struct map watched SECTION(".maps");  // hash: process -> anything
struct map threads SECTION(".maps");  // hash: thread -> struct thread

// No map: the loader puts the place of `pid` in the kernel's struct task_struct here.
struct map place_of_pid SECTION(".maps");

// A process as the machine numbers it, and what the caller gave with the probe.
struct who {
    u32 given;
    u32 process;
};

struct losses {
    u64 entered;
    u64 returned;
    u64 switched;
};

// A thread that called NCCL, if the scheduler is watched.
struct thread {
    struct who who;
    u64 from;          // it left its CPU; 0 while it runs
    u64 woken;
    u64 preempted;
    u64 softirq_from;  // a soft interrupt began on its CPU
    u64 softirq_ns;    // not handed out yet
};

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const forget)(void *map, const void *key) = (void *)3;
static u64 (*const now)(void) = (void *)5;
static u64 (*const process_and_thread)(void) = (void *)14;
static long (*const read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
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

static inline __attribute__((always_inline)) struct losses *losses_of(struct who who) {
    struct losses *counts = lookup(&lost, &who);
    if (!counts) {
        struct losses none = {0, 0, 0};
        update(&lost, &who, &none, 1 /* if there is none */);
        counts = lookup(&lost, &who);
    }
    return counts;
}

static inline __attribute__((always_inline)) void count_lost(u64 cookie, u64 who, int is_return) {
    struct losses *counts = losses_of((struct who){cookie >> 32, who >> 32});
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
#ifdef AARCH64
    to->arguments[0] = at->x[0];
    to->arguments[1] = at->x[1];
    to->arguments[2] = at->x[2];
    to->arguments[3] = at->x[3];
    to->arguments[4] = at->x[4];
    to->arguments[5] = at->x[5];
    to->arguments[6] = at->x[6];
    to->arguments[7] = at->x[7];
#else
    to->arguments[0] = at->di;
    to->arguments[1] = at->si;
    to->arguments[2] = at->dx;
    to->arguments[3] = at->cx;
    to->arguments[4] = at->r8;
    to->arguments[5] = at->r9;
    to->arguments[6] = 0;
    to->arguments[7] = 0;
    read_user(&to->arguments[6], 16, (const void *)(at->sp + 8));
#endif
}

// Argument `number`, counted from 1, of 1 to 4. The kernel wants the place of a register in the code, so
// these stay four loads.
static inline __attribute__((always_inline)) u64 argument(struct registers *at, u32 number) {
#ifdef AARCH64
    u64 value = at->x[0];
    if (number == 2) value = KEPT(at->x[1]);
    if (number == 3) value = KEPT(at->x[2]);
    if (number == 4) value = KEPT(at->x[3]);
#else
    u64 value = at->di;
    if (number == 2) value = KEPT(at->si);
    if (number == 3) value = KEPT(at->dx);
    if (number == 4) value = KEPT(at->cx);
#endif
    return value;
}

// Where the unique id of an init is; 0 if it has none.
static inline __attribute__((always_inline)) u64 place_of_id(struct registers *at, u64 cookie) {
#ifdef AARCH64
    u32 number = cookie >> 24 & 15;
    if (number == 5) return KEPT(at->x[4]);
    return number ? argument(at, number) : 0;
#else
    if (cookie & 1 << 20) return at->sp + 8;
    return cookie & 1 << 21 ? KEPT(at->r8) : 0;
#endif
}

// Watches this thread's switches from now on, and hands out for how long soft interrupts had its CPU.
static inline __attribute__((always_inline)) void note_thread(u64 cookie, u64 who) {
    if (!(cookie & 1 << 23)) return;
    u32 id = who;
    struct thread *thread = lookup(&threads, &id);
    if (!thread) {
        struct thread fresh = {{cookie >> 32, who >> 32}, 0, 0, 0, 0, 0};
        update(&threads, &id, &fresh, 0);
        return;
    }
    if (!thread->softirq_ns) return;
    struct interrupted *event = reserve(&events, sizeof *event, 0);
    if (!event) return;
    fill_head(&event->head, cookie, who, INTERRUPTED);
    event->ns = thread->softirq_ns;
    thread->softirq_ns = 0;
    submit(event, NO_WAKEUP);
}

SECTION("entry") int on_entry(struct registers *at) {
    u64 cookie = cookie_of(at);
    u64 who = process_and_thread();
    if (!is_watched(cookie, who)) return 0;

    note_thread(cookie, who);
    u32 result = cookie >> 16 & 15;
    if (result) {
        u64 address = argument(at, result);
        update(&results, &who, &address, 0);
    }
    u64 from = place_of_id(at, cookie);
    if (from) {
        struct entered_with_id *event = reserve(&events, sizeof *event, 0);
        if (!event) {
            count_lost(cookie, who, 0);
            return 0;
        }
        fill_head(&event->entered.head, cookie, who, ENTERED_WITH_ID);
        fill_entered(&event->entered, at);
        if (read_user(event->id, sizeof event->id, (const void *)from)) {
            event->entered.head.kind = ENTERED;
        }
        submit(event, NO_WAKEUP);
        return 0;
    }
    struct entered *event = reserve(&events, sizeof *event, 0);
    if (!event) {
        count_lost(cookie, who, 0);
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

    note_thread(cookie, who);
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
        count_lost(cookie, who, 1);
        return 0;
    }
    fill_head(&event->head, cookie, who, RETURNED);
    event->code = RESULT_OF(at);
    event->result = result;
    submit(event, NO_WAKEUP);
    return 0;
}

// The number of a thread, by its struct task_struct.
static inline __attribute__((always_inline)) u32 number_of(u64 task) {
    u32 id = 0;
    read_kernel(&id, sizeof id, (const void *)(task + (u64)&place_of_pid));
    return id;
}

#define DEAD 0x80

// Tracepoint sched_switch: whether it preempts, the task before, the task after, the state of the one before.
// It runs in the task before.
SECTION("switch") int on_switch(u64 *arguments) {
    u64 time = now();
    u32 before = process_and_thread();
    struct thread *leaves = lookup(&threads, &before);
    if (leaves) {
        u64 state = arguments[3] & 0xffffffff;
        if (state & DEAD) {
            forget(&threads, &before);
        } else {
            leaves->woken = 0;
            leaves->preempted = (arguments[0] & 1) || !state;
            leaves->from = time;
        }
    }
    u32 after = number_of(arguments[2]);
    struct thread *thread = lookup(&threads, &after);
    if (!thread) return 0;
    u64 from = thread->from;
    thread->from = 0;
    if (!from || time - from < LEAST) return 0;
    struct switched *event = reserve(&events, sizeof *event, 0);
    if (!event) {
        struct losses *counts = losses_of(thread->who);
        if (counts) __sync_fetch_and_add(&counts->switched, 1);
        return 0;
    }
    event->head.time = time;
    event->head.process = thread->who.process;
    event->head.thread = after;
    event->head.given = thread->who.given;
    event->head.function = 0;
    event->head.kind = SWITCHED;
    event->from = from;
    event->woken = thread->woken;
    event->preempted = thread->preempted;
    submit(event, NO_WAKEUP);
    return 0;
}

// Tracepoint sched_wakeup: the task.
SECTION("wakeup") int on_wakeup(u64 *arguments) {
    u32 id = number_of(arguments[0]);
    struct thread *thread = lookup(&threads, &id);
    if (thread && thread->from && !thread->woken) thread->woken = now();
    return 0;
}

// Tracepoints softirq_entry and softirq_exit, which run in the task that was interrupted.
SECTION("softirq_begin") int on_softirq_begin(u64 *arguments) {
    u32 id = process_and_thread();
    struct thread *thread = lookup(&threads, &id);
    if (thread) thread->softirq_from = now();
    return 0;
}

SECTION("softirq_end") int on_softirq_end(u64 *arguments) {
    u32 id = process_and_thread();
    struct thread *thread = lookup(&threads, &id);
    if (thread && thread->softirq_from) {
        thread->softirq_ns += now() - thread->softirq_from;
        thread->softirq_from = 0;
    }
    return 0;
}

char _license[] SECTION("license") = "Dual MIT/GPL";
