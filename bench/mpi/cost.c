/* What the recorder costs a call of MPI: MPI_Test of a request that is done, over and over.
 *
 *     mpicc -O2 cost.c -ldl -o cost && ./cost PLUGIN       prints ns per call */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    void *plugin = dlopen(argv[1], RTLD_NOW);
    void **table = plugin ? dlsym(plugin, "ncclProfiler_v1") : NULL;
    if (!table) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *context;
    int mask, flag;
    ((int (*)(void **, int *))table[1])(&context, &mask);
    MPI_Request request = MPI_REQUEST_NULL;
    const int calls = 5000000;
    for (int i = 0; i < calls / 10; ++i)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    double begin = now();
    for (int i = 0; i < calls; ++i)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    printf("%.1f\n", (now() - begin) / calls);
    ((int (*)(void *))table[5])(context);
    MPI_Finalize();
    return 0;
}
