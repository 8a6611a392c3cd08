// What cupti_left.py calls: CUPTI's activity interface, with buffers that are only counted.
// cc -O1 -shared -fPIC -o libcupti_left.so cupti_left.c -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int (*enable)(int), (*disable)(int), (*flush)(uint32_t), (*finalize)(void);
static int (*next)(uint8_t *, size_t, void **);
static int (*set_callbacks)(void *, void *);
static long records;

static void requested(uint8_t **buffer, size_t *size, size_t *most)
{
    *size = 256 << 10;
    *most = 0;
    if (posix_memalign((void **)buffer, 8, *size))
        *buffer = 0;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)context, (void)stream, (void)size;
    void *record = 0;
    while (valid && next(buffer, valid, &record) == 0)
        records++;
    free(buffer);
}

int load(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY);
    if (!library) {
        printf("%s\n", dlerror());
        return -1;
    }
    enable = dlsym(library, "cuptiActivityEnable");
    disable = dlsym(library, "cuptiActivityDisable");
    flush = dlsym(library, "cuptiActivityFlushAll");
    next = dlsym(library, "cuptiActivityGetNextRecord");
    set_callbacks = dlsym(library, "cuptiActivityRegisterCallbacks");
    finalize = dlsym(library, "cuptiFinalize");
    return 0;
}

int begin(void) { return set_callbacks(requested, completed); }
int on(int kind) { return enable(kind); }
int off(int kind) { return disable(kind); }
int flushed(void) { return flush(1); }
int finalized(void) { return finalize(); }
long recorded(void)
{
    long n = records;
    records = 0;
    return n;
}
