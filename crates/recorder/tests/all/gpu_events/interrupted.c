// To preload: a host so busy that the recorder's thread loses its CPU for 1 ms right behind every second look
// at CLOCK_MONOTONIC, before it can look at another clock.

#define _GNU_SOURCE
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static _Thread_local unsigned looks;
    int result = syscall(SYS_clock_gettime, clock, now);
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (clock == CLOCK_MONOTONIC && strcmp(name, "ncclscope") == 0 && looks++ % 2 == 0) {
        struct timespec away = {0, 1000000};
        nanosleep(&away, NULL);
    }
    return result;
}
