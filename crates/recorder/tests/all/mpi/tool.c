/* A tool that stands before MPI, as profilers do: preloaded, and it calls on by PMPI's names. */
int PMPI_Barrier(void *);

static int seen;

int MPI_Barrier(void *us) {
    ++seen;
    return PMPI_Barrier(us);
}

int tool_saw(void) { return seen; }
