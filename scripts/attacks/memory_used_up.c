// memory_used_up KIND: a program that may have no more memory, and has used up its heap to the last 16
// bytes, calls NCCL: KIND is `init` (the first communicator), `captured` (the first calls of CUDA graphs),
// `communicators` (thousands of them) or `end` (the last finalize). `left KIB` is a program that may have so
// many KiB more from its start on, captures 20 000 calls that all differ, and uses up what is left before
// the recorder's own thread has taken them over. With -DDRIVER it is the CUDA driver, as a library: one that
// needs no memory.
#define _GNU_SOURCE
#include <stdint.h>
#ifdef DRIVER

static uint64_t graph, handles = 0x10000;
static int capturing;

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuStreamBeginCapture_v2(uint64_t stream, int mode) { return capturing = 1, graph = handles += 64, 0; }
int cuStreamEndCapture(uint64_t stream, uint64_t *made) { return *made = graph, capturing = 0, 0; }
int cuStreamGetCaptureInfo_v2(uint64_t stream, int *status, uint64_t *id, uint64_t *into, void *a, void *n) {
    *status = capturing;
    if (into) *into = graph;
    return 0;
}
int cuGraphInstantiateWithFlags(uint64_t *exec, uint64_t of, uint64_t flags) {
    return *exec = handles += 64, 0;
}
int cuGraphDestroy(uint64_t of) { return 0; }
int cuGraphLaunch(uint64_t exec, uint64_t stream) { return 0; }

#else
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct {
    uint64_t type;
    void *parent;
    int rank;
    const char *func;
    size_t count;
    const char *datatype;
    int root;
    void *stream;
    uint8_t captured;
    char room[160];
} Descr;

typedef struct {
    const char *name;
    int (*init)(void **, uint64_t, int *, const char *, int, int, int, void *);
    int (*start)(void *, void **, Descr *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
} Profiler;

#define STREAM 0x77
static Profiler *profiler;
static int (*begin)(uint64_t, int), (*end)(uint64_t, uint64_t *);
static int (*instantiate)(uint64_t *, uint64_t, uint64_t);
static int (*destroy)(uint64_t), (*launch)(uint64_t, uint64_t);
static void *eaten;

static void say(const char *what) {
    if (write(1, what, strlen(what)) < 0) _exit(4);
}

// The process may have no more than it has now, and so many bytes.
static void limit_memory(long more) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1) _exit(3);
    fclose(file);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * sysconf(_SC_PAGESIZE) + more;
    setrlimit(RLIMIT_AS, &limit);
}

static void eat(void) {
    limit_memory(0);
    for (size_t n = 1 << 20; n >= 16; n /= 2)
        for (void *p; (p = malloc(n)); eaten = p) *(void **)p = eaten;
}

static void give_back(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_AS, &limit);
    while (eaten) {
        void *next = *(void **)eaten;
        free(eaten);
        eaten = next;
    }
}

static void *communicator(uint64_t hash) {
    void *comm = 0;
    int mask = 0;
    profiler->init(&comm, hash, &mask, "w", 1, 1, 0, 0);
    return comm;
}

static void call(void *comm, size_t count, int captured) {
    Descr descr = {.type = 256, .captured = captured}, api = {.type = 512};
    // The first word of a group's part says whether it is captured.
    *(uint8_t *)&descr.func = captured;
    void *group = 0, *handle = 0;
    profiler->start(comm, &group, &descr);
    api.parent = group, api.func = "AllReduce", api.count = count, api.datatype = "ncclFloat32";
    api.stream = (void *)STREAM, api.captured = captured;
    profiler->start(comm, &handle, &api);
    profiler->stop(handle);
    profiler->stop(group);
}

static void capture_graphs(void *comm, int graphs) {
    for (int number = 0; number < graphs; number++) {
        uint64_t graph, exec;
        begin(STREAM, 0);
        for (int i = 0; i < 500; i++) call(comm, 1 + i + 500 * number, 1);
        end(STREAM, &graph);
        instantiate(&exec, graph, 0);
        destroy(graph);
        launch(exec, STREAM);
    }
}

int main(int argc, char **argv) {
    const char *kind = argv[1];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *plugin = dlopen(getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    if (!driver || !plugin) return puts(dlerror()), 3;
    begin = dlsym(driver, "cuStreamBeginCapture_v2"), end = dlsym(driver, "cuStreamEndCapture");
    instantiate = dlsym(driver, "cuGraphInstantiateWithFlags"), destroy = dlsym(driver, "cuGraphDestroy");
    launch = dlsym(driver, "cuGraphLaunch");
    profiler = dlsym(plugin, "ncclProfiler_v5");
    if (!strcmp(kind, "init")) eat();
    if (!strcmp(kind, "left")) limit_memory(atol(argv[2]) << 10);
    void *comm = communicator(0x9999);
    call(comm, 1024, 0);
    if (strcmp(kind, "init")) usleep(300000);
    if (!strcmp(kind, "left")) {
        capture_graphs(comm, 40);
        eat();
        // The recorder's thread takes over what was captured.
        usleep(1500000);
    } else if (strcmp(kind, "init")) {
        eat();
    }
    if (!strcmp(kind, "captured")) capture_graphs(comm, 20);
    if (!strcmp(kind, "communicators"))
        for (int i = 0; i < 2000; i++) {
            void *other = communicator(0x10000 + i);
            call(other, 4, 0);
            profiler->finalize(other);
        }
    if (!strcmp(kind, "end")) profiler->finalize(comm);
    say("survived\n");
    give_back();
    // With memory again.
    void *last = communicator(0x7777);
    call(last, 8, 0);
    profiler->finalize(last);
    if (strcmp(kind, "end")) profiler->finalize(comm);
    return 0;
}
#endif
