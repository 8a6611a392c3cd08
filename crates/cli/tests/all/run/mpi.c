/* To be preloaded into `fake-nccl play`: in each rank, a thread that is in MPI half of the time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

int MPI_Barrier(void *us);
int MPI_Test(void *request, int *flag, void *status);

static void *calls(void *unused) {
    pthread_setname_np(pthread_self(), "calls-mpi");
    for (;;) {
        int flag;
        MPI_Barrier((void *)10000L);
        for (int i = 0; i < 100; ++i)
            MPI_Test(0, &flag, 0);
        struct timespec ten_ms = {0, 10000000};
        nanosleep(&ten_ms, 0);
    }
    return unused;
}

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    if (getenv("RANK"))
        pthread_create(&thread, 0, calls, 0);
}
