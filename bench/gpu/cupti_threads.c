// What cupti_threads.py loads: a thread that switches CUPTI's kernel records on and off, as kernel windows
// do.
// cc -O1 -shared -fPIC -o libcupti_threads.so cupti_threads.c -ldl -lpthread
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int (*enable)(int), (*disable)(int), (*flush)(uint32_t);
static int (*next)(uint8_t *, size_t, void **);
static int (*set_callbacks)(void *, void *);
static int (*set_attribute)(uint32_t, size_t *, void *);
static long records, switches;
static int out, stays_on;
enum { SIZE = 256 << 10, MOST = 16 };
static const int kinds[] = {10, 1, 2}; // Kernels, copies, fills.

static void requested(uint8_t **buffer, size_t *size, size_t *most)
{
    *most = *size = 0;
    *buffer = 0;
    if (__sync_add_and_fetch(&out, 1) > MOST) {
        __sync_sub_and_fetch(&out, 1);
        return;
    }
    *size = SIZE;
    if (posix_memalign((void **)buffer, 8, SIZE))
        abort();
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)context, (void)stream, (void)size;
    void *record = 0;
    if (!buffer)
        return;
    while (valid && next(buffer, valid, &record) == 0)
        __sync_add_and_fetch(&records, 1);
    free(buffer);
    __sync_sub_and_fetch(&out, 1);
}

static void switch_all(int (*how)(int))
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        how(kinds[i]);
}

static void *control(void *nothing)
{
    size_t size = 1;
    uint8_t shared = 0;
    set_attribute(9, &size, &shared);
    set_callbacks(requested, completed);
    if (stays_on)
        switch_all(enable);
    for (;; switches++) {
        if (!stays_on)
            switch_all(enable);
        usleep(60 * 1000);
        if (!stays_on)
            switch_all(disable);
        for (int i = 0; i < 15; i++) {
            flush(0);
            usleep(10 * 1000);
        }
    }
    return nothing;
}

int start(const char *path, int always)
{
    void *library = dlopen(path, RTLD_LAZY);
    if (!library)
        return -1;
    enable = dlsym(library, "cuptiActivityEnable");
    disable = dlsym(library, "cuptiActivityDisable");
    flush = dlsym(library, "cuptiActivityFlushAll");
    next = dlsym(library, "cuptiActivityGetNextRecord");
    set_callbacks = dlsym(library, "cuptiActivityRegisterCallbacks");
    set_attribute = dlsym(library, "cuptiActivitySetAttribute");
    stays_on = always;
    pthread_t thread;
    return pthread_create(&thread, 0, control, 0);
}

long switched(void) { return switches; }
long recorded(void) { return records; }
