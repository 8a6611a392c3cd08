// Makes one rank's way out to other hosts slow, or stops it: LD_PRELOAD for that rank, if NCCL uses sockets.
// SLOW_LINK_MBPS: how many MB a second leave it. SLOW_LINK_STOP_MB: after so many MB, no more do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

// Smaller messages are not data.
enum { LEAST = 1024, PIECE = 4096, BURST = 65536 };

static ssize_t (*next)(int, const void *, size_t, int);
static double per_second, at_most, sent, allowed, last;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double megabytes(const char *name) {
    const char *value = getenv(name);
    return value ? atof(value) * 1e6 : 0;
}

__attribute__((constructor)) static void begin(void) {
    next = (ssize_t(*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    per_second = megabytes("SLOW_LINK_MBPS");
    at_most = megabytes("SLOW_LINK_STOP_MB");
}

// How much of a message may leave now.
static size_t leaves(size_t bytes) {
    if (at_most > 0 && sent >= at_most) return 0;
    if (per_second <= 0) return bytes;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    double now = time.tv_sec + time.tv_nsec * 1e-9;
    allowed += (now - last) * per_second;
    last = now;
    if (allowed > BURST) allowed = BURST;
    if (allowed < PIECE) return 0;
    return allowed < bytes ? (size_t)allowed : bytes;
}

ssize_t send(int socket, const void *from, size_t bytes, int flags) {
    if (bytes < LEAST || !(flags & MSG_DONTWAIT)) return next(socket, from, bytes, flags);
    pthread_mutex_lock(&lock);
    size_t now = leaves(bytes);
    ssize_t done = -1;
    errno = EAGAIN;
    if (now > 0) done = next(socket, from, now, flags);
    if (done > 0) {
        if (at_most > 0 && sent < at_most && sent + done >= at_most)
            fprintf(stderr, "goes wrong now: no more leaves this rank\n");
        sent += done;
        allowed -= done;
    }
    pthread_mutex_unlock(&lock);
    return done;
}
