/* A program that calls MPI, and, as a library for Fortran does, functions of the profiling interface. */
#include <setjmp.h>
#include <stdint.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Send(const void *, int, int, int, int, int);
int MPI_Sendrecv(const void *, int, void *, int, int, void *, int, void *, int, int, void *, void *);
int MPI_Rget_accumulate(const void *, int, void *, void *, int, void *, int, intptr_t, int, void *, void *,
                        void *, void *);
int MPI_Barrier(void *);
int MPI_Test(void *, int *, void *);
int MPI_Allreduce(const void *, void *, int, void *, void *, void *);
int MPI_Win_free(void *);
int PMPI_Barrier(void *);

int version(void) { return MPI_Win_free(0); }
int init(void) { return MPI_Init(0, 0); }
int finalize(void) { return MPI_Finalize(); }
int barrier(long us) { return MPI_Barrier((void *)us); }

/* As gfortran compiles `call MPI_Barrier(comm, ierror)`. */
void mpi_barrier_(int *us, int *error) { *error = PMPI_Barrier((void *)(long)*us); }

int send(long us) { return MPI_Send((void *)us, -1, 0x4c000405, 1, 99, 0x44000000); }

int sendrecv(long us) {
    return MPI_Sendrecv((void *)us, -1, (void *)2L, 3, -4, (void *)5L, 6, (void *)-7L, 8, -9,
                        (void *)0x1234567890abcdefL, 0);
}

int many(long us) {
    return MPI_Rget_accumulate((void *)us, 1, 0, 0, -2, 0, 3, (intptr_t)1 << 40, -5, 0, 0, 0, (void *)13);
}

int poll(long times) {
    int flag = 0;
    for (long i = 0; i < times; ++i)
        MPI_Test(0, &flag, 0);
    return flag;
}

static void operation(void) { MPI_Barrier((void *)1000L); }
int reduce(long us) { return MPI_Allreduce((void *)us, (void *)operation, 1, 0, 0, 0); }

static jmp_buf out;
static void leaves(void) { longjmp(out, 1); }
/* An error handler that leaves MPI for good. */
int jump(long us) {
    if (!setjmp(out))
        MPI_Allreduce((void *)us, (void *)leaves, 1, 0, 0, 0);
    return 0;
}
