// Runs the host side of a real libnccl without a GPU: two ranks make communicators and calls.
//
// usage: host_side LIBNCCL RANK RANKS FOLDER
//
// A released libnccl has the CUDA runtime inside. Its symbol table says where each function of the runtime
// begins, so this program loads the library and replaces these functions with those below. Device memory is
// host memory, streams and events are always done, and a kernel launch does nothing. So everything that NCCL
// does on the host is real: its bootstrap, its search for plugins, its shims, its events. What kernels would
// do does not happen: no data moves, and NCCL's own stamps do not come.
//
// It prints a line with what happened, and ends with status 0 if all calls succeeded.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int device;
static int gpus;

static void *memory(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 1 << 21, bytes ? bytes : 1)) return NULL;
    return memset(p, 0, bytes);
}

// ---- the CUDA runtime, as far as NCCL asks it ----

static int ok(void) { return 0; }
static int get_device(int *d) { *d = device; return 0; }
static int set_device(int d) { device = d; return 0; }
static int get_device_count(int *n) { *n = gpus; return 0; }
static int version(int *v) { *v = 12020; return 0; }
static int alloc(void **p, size_t bytes) { return (*p = memory(bytes)) ? 0 : 2; }
static int copy(void *to, const void *from, size_t n) { memcpy(to, from, n); return 0; }
static int set(void *to, int value, size_t n) { memset(to, value, n); return 0; }
static int handle(void **h) {
    static uintptr_t next = 0x1000;
    *h = (void *)__atomic_add_fetch(&next, 16, 0);
    return 0;
}
static int same_pointer(void **to, void *from, unsigned f) { (void)f; *to = from; return 0; }
static int host_func(void *stream, void (*f)(void *), void *data) { (void)stream; f(data); return 0; }
static int no_capture(void *stream, int *status, uint64_t *id, void **graph) {
    (void)stream;
    if (status) *status = 0;
    if (id) *id = 0;
    if (graph) *graph = NULL;
    return 0;
}
static int is_capturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
static int stream_id(void *stream, uint64_t *id) { *id = (uintptr_t)stream; return 0; }
static int can_access_peer(int *can, int a, int b) { (void)a; (void)b; *can = 0; return 0; }
static int bus_id(char *text, int len, int d) {
    snprintf(text, len, "0000:%02x:00.0", d + 1);
    return 0;
}
static int by_bus_id(int *d, const char *text) {
    unsigned bus = 1;
    sscanf(text, "%*x:%x", &bus);
    *d = bus - 1;
    return 0;
}
static int attribute(int *value, int what, int d) {
    (void)d;
    switch (what) {
    case 75: *value = 9; break;         // compute capability
    case 76: *value = 0; break;
    case 16: *value = 132; break;       // multiprocessors
    case 8: *value = 49152; break;      // shared memory of a block
    case 97: *value = 232448; break;    // the same, if asked for
    case 41: *value = 1; break;         // unified addressing
    case 33: *value = d + 1; break;     // PCI bus
    case 10: *value = 32; break;        // threads of a warp
    default: *value = 0;
    }
    return 0;
}
static int properties(void *p, int d) {
    // The name, and behind UUID and LUID how much memory there is.
    (void)d;
    memset(p, 0, 304);
    strcpy(p, "a stub of CUDA");
    *(size_t *)((char *)p + 288) = 80ull << 30;
    return 0;
}
static int func_attributes(void *attributes, const void *f) { (void)f; memset(attributes, 0, 64); return 0; }
static int func_by_symbol(void **f, const void *symbol) { *f = (void *)symbol; return 0; }
static const char *error_text(int error) { (void)error; return "a stub of CUDA"; }
static int pointer_attributes(void *a, const void *p) {
    // type, device, device pointer, host pointer
    memset(a, 0, 24);
    *(int *)a = 2; ((int *)a)[1] = device; ((const void **)a)[1] = p;
    return 0;
}

// ---- the driver ----

static int cu_device_get(int *d, int ordinal) { *d = ordinal; return 0; }
static int cu_text(int error, const char **text) { (void)error; *text = "a stub of CUDA"; return 0; }
static int cu_uuid(unsigned char *uuid, int d) {
    for (int i = 0; i < 16; i++) uuid[i] = d * 16 + i;
    return 0;
}
static int cu_ctx(void **c) { *c = (void *)0x10; return 0; }
static int cu_range(void **base, size_t *size, void *p) {
    if (base) *base = p;
    if (size) *size = 1 << 20;
    return 0;
}

typedef struct { const char *name; void *function; } Named;

static const Named DRIVER[] = {
    {"cuDeviceGet", cu_device_get}, {"cuDeviceGetAttribute", attribute}, {"cuDeviceGetUuid", cu_uuid},
    {"cuGetErrorString", cu_text}, {"cuGetErrorName", cu_text}, {"cuCtxGetCurrent", cu_ctx},
    {"cuCtxSetCurrent", ok}, {"cuCtxGetDevice", get_device}, {"cuCtxCreate", cu_ctx}, {"cuCtxDestroy", ok},
    {"cuMemGetAddressRange", cu_range}, {"cuLaunchKernel", ok}, {"cuLaunchKernelEx", ok},
    {"cuStreamBatchMemOp", ok}, {"cuStreamWaitValue32", ok}, {"cuStreamWaitValue64", ok},
    {"cuStreamWriteValue32", ok}, {"cuStreamWriteValue64", ok}, {"cuPointerGetAttribute", ok},
};

static int driver_entry(const char *name, void **f, unsigned long long flags, int *status) {
    (void)flags;
    *f = NULL;
    for (size_t i = 0; i < sizeof DRIVER / sizeof *DRIVER; i++)
        if (!strcmp(DRIVER[i].name, name)) *f = DRIVER[i].function;
    if (status) *status = *f ? 0 : 1;
    // Before CUDA 12, there is no status.
    return 0;
}
static int driver_entry_by_version(const char *name, void **f, unsigned v, unsigned long long flags,
    int *status) {
    (void)v;
    return driver_entry(name, f, flags, status);
}

static const Named RUNTIME[] = {
    {"GetDevice", get_device}, {"SetDevice", set_device}, {"GetDeviceCount", get_device_count},
    {"DriverGetVersion", version}, {"RuntimeGetVersion", version}, {"GetLastError", ok},
    {"PeekAtLastError", ok}, {"GetErrorString", (void *)error_text}, {"GetErrorName", (void *)error_text},
    {"Malloc", alloc}, {"HostAlloc", alloc}, {"MallocHost", alloc}, {"MallocAsync", alloc},
    {"MallocFromPoolAsync", alloc}, {"Free", ok}, {"FreeHost", ok}, {"FreeAsync", ok}, {"HostRegister", ok},
    {"HostUnregister", ok}, {"HostGetDevicePointer", same_pointer}, {"Memcpy", copy}, {"MemcpyAsync", copy},
    {"Memset", set}, {"MemsetAsync", set}, {"StreamCreateWithFlags", handle}, {"StreamCreate", handle},
    {"StreamDestroy", ok}, {"StreamSynchronize", ok}, {"StreamWaitEvent", ok},
    {"StreamGetCaptureInfo_v2", no_capture}, {"StreamGetCaptureInfo_v3", no_capture},
    {"StreamGetCaptureInfo", no_capture}, {"StreamIsCapturing", is_capturing}, {"StreamGetId", stream_id},
    {"StreamQuery", ok}, {"EventCreateWithFlags", handle}, {"EventCreate", handle}, {"EventDestroy", ok},
    {"EventRecord", ok}, {"EventQuery", ok}, {"EventSynchronize", ok},
    {"ThreadExchangeStreamCaptureMode", ok}, {"DeviceGetAttribute", attribute},
    {"DeviceGetPCIBusId", bus_id}, {"GetDeviceProperties", properties},
    {"GetDeviceProperties_v2", properties}, {"DeviceGetByPCIBusId", by_bus_id},
    {"DeviceCanAccessPeer", can_access_peer}, {"DeviceEnablePeerAccess", ok}, {"DeviceSetLimit", ok},
    {"DeviceSynchronize", ok}, {"FuncGetAttributes", func_attributes}, {"FuncSetAttribute", ok},
    {"GetFuncBySymbol", func_by_symbol}, {"LaunchKernel", ok}, {"LaunchKernelExC", ok},
    {"LaunchHostFunc", host_func}, {"GetDriverEntryPoint", driver_entry},
    {"GetDriverEntryPointByVersion", driver_entry_by_version}, {"MemPoolCreate", handle},
    {"MemPoolDestroy", ok}, {"MemPoolSetAttribute", ok}, {"PointerGetAttributes", pointer_attributes},
};

static void unknown(const char *name) {
    fprintf(stderr, "host_side: NCCL called %s, which has no stub\n", name);
    _exit(4);
}

static void *stub(const char *name, char *thunk) {
    const char *rest = name + 4;
    size_t len = strlen(rest);
    // Variants for streams of their own, and of newer headers.
    if (len > 5 && !strcmp(rest + len - 5, "_ptsz")) len -= 5;
    for (size_t i = 0; i < sizeof RUNTIME / sizeof *RUNTIME; i++)
        if (strlen(RUNTIME[i].name) == len && !strncmp(RUNTIME[i].name, rest, len))
            return RUNTIME[i].function;
    // mov $name, %rdi; mov $unknown, %rax; jmp *%rax
    void *says = (void *)unknown;
    memcpy(thunk, "\x48\xbf", 2); memcpy(thunk + 2, &name, 8);
    memcpy(thunk + 10, "\x48\xb8", 2); memcpy(thunk + 12, &says, 8);
    memcpy(thunk + 20, "\xff\xe0", 2);
    return thunk;
}

// Replaces the functions of the runtime inside the library; how many.
static int replace(void *library, const char *path) {
    struct link_map *map;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map)) return 0;
    int fd = open(path, O_RDONLY);
    struct stat s;
    if (fd < 0 || fstat(fd, &s)) return 0;
    char *file = mmap(NULL, s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED) return 0;
    Elf64_Ehdr *head = (void *)file;
    Elf64_Shdr *sections = (void *)(file + head->e_shoff);
    int replaced = 0;
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    char *thunks = mmap(NULL, 1 << 16, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (thunks == MAP_FAILED) return 0;
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        Elf64_Sym *symbols = (void *)(file + sections[i].sh_offset);
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        for (size_t n = 0; n < sections[i].sh_size / sizeof *symbols; n++) {
            const char *name = names + symbols[n].st_name;
            if (strncmp(name, "cuda", 4) || name[4] < 'A' || name[4] > 'Z') continue;
            if (ELF64_ST_TYPE(symbols[n].st_info) != STT_FUNC || symbols[n].st_size < 12) continue;
            char *at = (char *)map->l_addr + symbols[n].st_value;
            void *to = stub(strdup(name), thunks + 32 * (replaced % 2048));
            uintptr_t page = (uintptr_t)at & ~4095ul;
            mprotect((void *)page, 8192, all);
            memcpy(at, "\x48\xb8", 2); memcpy(at + 2, &to, 8); memcpy(at + 10, "\xff\xe0", 2);
            mprotect((void *)page, 8192, PROT_READ | PROT_EXEC);
            replaced++;
        }
    }
    munmap(file, s.st_size);
    return replaced;
}

// ---- the ranks ----

typedef struct { char bytes[128]; } Id;

static void *find(void *library, const char *name) {
    void *f = dlsym(library, name);
    if (!f) { fprintf(stderr, "host_side: no %s\n", name); exit(3); }
    return f;
}

static void check(const char *what, int result) {
    if (result) { fprintf(stderr, "host_side: %s returned %d\n", what, result); exit(1); }
}

// Rank 0 writes the id; the others wait for it.
static Id share(Id id, int rank, const char *folder) {
    char path[4096], fresh[4100];
    snprintf(path, sizeof path, "%s/id", folder);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    if (rank == 0) {
        FILE *file = fopen(fresh, "w");
        if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) || rename(fresh, path)) exit(3);
        return id;
    }
    for (int i = 0; i < 3000; i++, usleep(10000)) {
        FILE *file = fopen(path, "r");
        if (!file) continue;
        size_t read = fread(&id, sizeof id, 1, file);
        fclose(file);
        if (read == 1) return id;
    }
    exit(3);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const char *path = argv[1], *folder = argv[4];
    int rank = atoi(argv[2]), ranks = atoi(argv[3]);
    gpus = ranks;
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) { fprintf(stderr, "host_side: %s\n", dlerror()); return 3; }
    int replaced = replace(library, path);
    if (!replaced) { fprintf(stderr, "host_side: %s has no symbols of the CUDA runtime\n", path); return 3; }

    int (*get_version)(int *) = find(library, "ncclGetVersion");
    int (*get_id)(Id *) = find(library, "ncclGetUniqueId");
    int (*init)(void **, int, Id, int) = find(library, "ncclCommInitRank");
    int (*all_reduce)(void *, void *, size_t, int, int, void *, void *) = find(library, "ncclAllReduce");
    int (*all_gather)(void *, void *, size_t, int, void *, void *) = find(library, "ncclAllGather");
    int (*broadcast)(void *, void *, size_t, int, int, void *, void *) = find(library, "ncclBroadcast");
    int (*send)(void *, size_t, int, int, void *, void *) = find(library, "ncclSend");
    int (*receive)(void *, size_t, int, int, void *, void *) = find(library, "ncclRecv");
    int (*group_start)(void) = find(library, "ncclGroupStart");
    int (*group_end)(void) = find(library, "ncclGroupEnd");
    int (*destroy)(void *) = find(library, "ncclCommDestroy");

    int nccl = 0;
    check("ncclGetVersion", get_version(&nccl));
    set_device(rank);
    Id id;
    memset(&id, 0, sizeof id);
    if (rank == 0) check("ncclGetUniqueId", get_id(&id));
    id = share(id, rank, folder);
    void *comm = NULL, *stream = NULL;
    check("ncclCommInitRank", init(&comm, ranks, id, rank));
    handle(&stream);
    char *from = memory(1 << 20), *to = memory(1 << 22);
    // ncclFloat32 is 7, ncclSum is 0.
    for (int i = 0; i < 10; i++) check("ncclAllReduce", all_reduce(from, to, 1000, 7, 0, comm, stream));
    for (int i = 0; i < 5; i++) check("ncclAllGather", all_gather(from, to, 1000, 7, comm, stream));
    for (int i = 0; i < 3; i++) check("ncclBroadcast", broadcast(from, to, 1000, 7, 0, comm, stream));
    check("ncclGroupStart", group_start());
    check("ncclSend", send(from, 1000, 7, (rank + 1) % ranks, comm, stream));
    check("ncclRecv", receive(to, 1000, 7, (rank + ranks - 1) % ranks, comm, stream));
    check("ncclGroupEnd", group_end());
    check("ncclCommDestroy", destroy(comm));
    printf("nccl=%d rank=%d replaced=%d calls=20\n", nccl, rank, replaced);
    return 0;
}
