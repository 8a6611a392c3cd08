// number_taken ENDING WHEN WORK: a program that takes a descriptor of the recorder's in the moment between
// the recorder's `open` and its first look at what it opened. ENDING says of which file (.trace, .snap,
// .live); WHEN is `first`, as the file is made, or `again`, after the program has closed its number once.
//
// The moment is certain: the recorder looks by the system call statx, and the program has a `syscall` of its
// own. It puts a file of its own under the number there. That file must stay as it is, and its number open.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

static const char *ending;
static int armed, taken = -1, mine;
static char path_of_taken[4096];

static int is_it(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1), end = strlen(ending);
    if (n < end || strncmp(path + n - end, ending, end)) return 0;
    path[n] = 0;
    // The recorder also looks at what other jobs have left.
    char own[32];
    snprintf(own, sizeof own, "-p%d-", getpid());
    if (!strstr(path, own)) return 0;
    strcpy(path_of_taken, path);
    return 1;
}

long syscall(long number, ...) {
    static long (*real)(long, ...);
    va_list list;
    va_start(list, number);
    long of[6];
    for (int i = 0; i < 6; i++) of[i] = va_arg(list, long);
    va_end(list);
    int yes = 1, fd = of[0];
    const char *path = (const char *)of[1];
    if (number == SYS_statx && fd > 2 && path && !*path && __atomic_load_n(&armed, __ATOMIC_ACQUIRE)
        && is_it(fd)
        && __atomic_compare_exchange_n(&armed, &yes, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        dup2(mine, fd);
        __atomic_store_n(&taken, fd, __ATOMIC_RELEASE);
    }
    if (!real) real = dlsym(RTLD_NEXT, "syscall");
    return real(number, of[0], of[1], of[2], of[3], of[4], of[5]);
}

static Profiler *profiler;
static void *comm;

static void call(void) {
    Descr descr = {.type = 512, .func = "AllReduce", .count = 4, .datatype = "ncclFloat32"};
    void *handle = 0;
    profiler->start(comm, &handle, &descr);
    profiler->stop(handle);
}

static int number(void) {
    for (int fd = 3; fd < 1024; fd++)
        if (is_it(fd)) return fd;
    return -1;
}

static void fail(const char *why) {
    printf("BROKEN: %s\n", why);
    exit(1);
}

// Calls NCCL until this is so.
#define UNTIL(what, why)                                                                                     \
    for (int turn = 0; !(what); turn++) {                                                                    \
        if (turn == 60000) fail(why);                                                                        \
        call();                                                                                              \
        usleep(1000);                                                                                        \
    }

static off_t size_of(const char *path) {
    struct stat found;
    return stat(path, &found) ? 0 : found.st_size;
}

// Whether the number still leads to the program's file. If it was closed, the recorder may have it again.
static int is_mine(int fd) {
    struct stat there, own;
    if (fstat(fd, &there) || fstat(mine, &own)) return 0;
    return there.st_ino == own.st_ino && there.st_dev == own.st_dev;
}

int main(int argc, char **argv) {
    ending = argv[1];
    int again = !strcmp(argv[2], "again");
    char own[4096], text[8 * 1000], now[sizeof text];
    for (size_t i = 0; i < sizeof text; i += 8) memcpy(text + i, "PRECIOUS", 8);
    snprintf(own, sizeof own, "%s/mine", argv[3]);
    mine = open(own, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(mine, text, sizeof text) != sizeof text) return 3;
    mine = fcntl(mine, F_DUPFD, 900);

    void *plugin = dlopen(getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return puts(dlerror()), 3;
    profiler = dlsym(plugin, "ncclProfiler_v5");
    if (!again) armed = 1;
    int mask = 0;
    if (profiler->init(&comm, 0x42, &mask, "w", 1, 1, 0, 0) || !comm) fail("no context");
    if (again) {
        UNTIL(number() >= 0 && size_of(path_of_taken) > 100, "the recorder wrote nothing")
        int first = number();
        close(first);
        __atomic_store_n(&armed, 1, __ATOMIC_RELEASE);
    }
    UNTIL(__atomic_load_n(&taken, __ATOMIC_ACQUIRE) >= 0, "the recorder did not look at its file")
    // A live part is made somewhere else then, and the other files are made or opened once more.
    if (strcmp(ending, ".live")) {
        UNTIL(number() >= 0, "the recorder gave its file up")
        off_t before = size_of(path_of_taken);
        if (strcmp(ending, ".snap")) UNTIL(size_of(path_of_taken) > before, "nothing more is recorded")
    }
    if (!is_mine(taken)) fail("the program's descriptor was closed");
    profiler->finalize(comm);
    if (!is_mine(taken)) fail("the program's descriptor was closed at the end");
    if (pread(mine, now, sizeof now, 0) != sizeof now || memcmp(now, text, sizeof now)
        || size_of(own) != sizeof text)
        fail("the program's file was written to");
    return 0;
}
