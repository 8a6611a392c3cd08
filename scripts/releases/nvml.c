// The part of NVML that NCCL asks at its init, for GPUs that are not there.

#include <stdio.h>
#include <string.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;

int nvmlInit(void) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int error) { (void)error; return "a stub of NVML"; }
int nvmlDeviceGetCount(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex(unsigned i, void **device) {
    *device = (void *)(unsigned long)(i + 1);
    return 0;
}
int nvmlDeviceGetHandleByPciBusId(const char *text, void **device) {
    unsigned bus = 1;
    sscanf(text, "%*x:%x", &bus);
    *device = (void *)(unsigned long)bus;
    return 0;
}
int nvmlDeviceGetIndex(void *device, unsigned *i) {
    *i = (unsigned)(unsigned long)device - 1;
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)(unsigned long)device;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    (void)device;
    *major = 9;
    *minor = 0;
    return 0;
}
// Not supported: there are no links.
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *on) {
    (void)device;
    (void)link;
    *on = 0;
    return 3;
}
int nvmlDeviceGetNvLinkRemotePciInfo(void *device, unsigned link, Pci *pci) {
    (void)device;
    (void)link;
    (void)pci;
    return 3;
}
int nvmlDeviceGetNvLinkCapability(void *device, unsigned link, unsigned what, unsigned *can) {
    (void)device; (void)link; (void)what;
    *can = 0;
    return 3;
}
int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *status) {
    (void)a;
    (void)b;
    (void)what;
    *status = 1;
    return 0;
}
int nvmlDeviceGetFieldValues(void *device, int n, void *values) {
    (void)device; (void)n; (void)values;
    return 3;
}
int nvmlDeviceGetPcieLinkMaxSpeed(void *device, unsigned *speed) {
    (void)device;
    *speed = 32000;
    return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *g) { (void)device; *g = 5; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width) { (void)device; *width = 16; return 0; }
