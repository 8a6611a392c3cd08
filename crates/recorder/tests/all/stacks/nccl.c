// A libnccl that has no GPU and one collective. It calls the plugin as NCCL 2.28 does, a few functions deep.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    const char *name;
    int (*init)(void **, uint64_t, int *, const char *, int, int, int, void *);
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*state)(void *, unsigned, void *);
    int (*finalize)(void *);
} Profiler;

typedef struct {
    uint64_t type;
    void *parent;
    int32_t rank;
    int32_t pad;
    union {
        struct { uint8_t captured; int32_t depth; } group;
        struct {
            const char *func;
            size_t count;
            const char *type;
            int32_t root;
            void *stream;
            uint8_t captured;
        } api;
        char all[88];
    } u;
} Event;

static Profiler *profiler;
static void *context;

static void load(void) {
    void *library = dlopen(getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    profiler = dlsym(library, "ncclProfiler_v5");
}

int ncclFakeInit(void) {
    if (!profiler) load();
    static int mask = 0;
    return profiler->init(&context, 7, &mask, "world", 1, 1, 0, NULL);
}

int ncclFakeFinalize(void) {
    return profiler->finalize(context);
}

__attribute__((noinline)) static void *start_api(void *group, size_t count) {
    Event event;
    void *handle = NULL;
    memset(&event, 0, sizeof event);
    event.type = 0x200;
    event.parent = group;
    event.u.api.func = "AllReduce";
    event.u.api.count = count;
    event.u.api.type = "ncclFloat32";
    profiler->start(context, &handle, &event);
    return handle;
}

__attribute__((noinline)) static int enqueue(size_t count) {
    Event event;
    void *group = NULL;
    memset(&event, 0, sizeof event);
    event.type = 0x100;
    event.u.group.depth = 1;
    profiler->start(context, &group, &event);
    void *api = start_api(group, count);
    profiler->stop(api);
    profiler->stop(group);
    return 0;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream) {
    (void)from, (void)to, (void)type, (void)op, (void)comm, (void)stream;
    return enqueue(count) + 0 * (int)count;
}

// Writes the time of each of so many calls, ns. Before each, all of `sweep` is written, so that caches have
// nothing else.
void ncclFakeTimes(int calls, double *times, char *sweep, size_t bytes) {
    for (int i = 0; i < calls; i++) {
        struct timespec a, b;
        for (size_t at = 0; at < bytes; at += 64) sweep[at]++;
        clock_gettime(CLOCK_MONOTONIC, &a);
        ncclAllReduce(NULL, NULL, 4, 0, 0, NULL, NULL);
        clock_gettime(CLOCK_MONOTONIC, &b);
        times[i] = (b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec);
    }
}

struct work { size_t count; int calls; const char *name; };

static void *run(void *argument) {
    struct work *work = argument;
    pthread_setname_np(pthread_self(), work->name);
    for (int i = 0; i < work->calls; i++) ncclAllReduce(NULL, NULL, work->count, 0, 0, NULL, NULL);
    return NULL;
}

// Calls from a thread of this name, which runs no Python code.
int ncclFakeThread(size_t count, int calls, const char *name) {
    struct work work = {count, calls, name};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, &work)) return 1;
    return pthread_join(thread, NULL);
}
