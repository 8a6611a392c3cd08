/* An MPI library: its functions take the time that their first argument says, in microseconds, and check
 * that all arguments came as they were passed. As in MPICH and Open MPI, MPI_* are weak names of PMPI_*. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define FUNCTION(name, arguments)                                                \
    int PMPI_##name arguments;                                                   \
    int MPI_##name arguments __attribute__((weak, alias("PMPI_" #name)));        \
    int PMPI_##name arguments

static void spend(long us) {
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&left, &left)) {
    }
}

FUNCTION(Init, (int *argc, char ***argv)) { return 0; }
FUNCTION(Finalize, (void)) {
    spend(2000);
    return 0;
}

/* Numbers for handles, as MPICH has them. */
FUNCTION(Send, (const void *us, int count, int datatype, int dest, int tag, int comm)) {
    spend((long)us);
    return count == -1 && datatype == 0x4c000405 && dest == 1 && tag == 99 && comm == 0x44000000 ? 0 : 5;
}

/* Pointers for handles, as Open MPI has them, and more arguments than there are registers. */
FUNCTION(Sendrecv, (const void *us, int a, void *b, int c, int d, void *e, int f, void *g, int h, int i,
                    void *comm, void *status)) {
    spend((long)us);
    int same = a == -1 && b == (void *)2L && c == 3 && d == -4 && e == (void *)5L && f == 6
               && g == (void *)-7L && h == 8 && i == -9 && comm == (void *)0x1234567890abcdefL && status == 0;
    return same ? 0 : 5;
}

/* 64 bits among 32. */
FUNCTION(Rget_accumulate, (const void *us, int a, void *b, void *c, int d, void *e, int f, intptr_t g, int h,
                           void *i, void *j, void *k, void *request)) {
    spend((long)us);
    int same = a == 1 && d == -2 && f == 3 && g == (intptr_t)1 << 40 && h == -5 && request == (void *)13;
    return same ? 0 : 5;
}

/* A collective calls others of the library's own. */
FUNCTION(Barrier, (void *us)) {
    spend((long)us);
    return 0;
}

#ifndef VERSION
#define VERSION 1
#endif
FUNCTION(Win_free, (void *window)) { return VERSION; }

/* It only looks. */
FUNCTION(Test, (void *request, int *flag, void *status)) {
    *flag = 0;
    return 0;
}

/* Calls back into the program, as a reduction with an operation of the user's does. */
FUNCTION(Allreduce, (const void *us, void *operation, int count, void *type, void *op, void *comm)) {
    spend((long)us / 2);
    if (operation)
        ((void (*)(void))operation)();
    spend((long)us / 2);
    return 0;
}
