/* A fake libnvidia-ml.so.1: the functions that the probe calls. What it shows follows from the shared state. */
#include "state.h"

typedef int Result;
typedef size_t Handle; /* the index of a device plus one */
enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18 };
typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } ProcessInfo;
typedef struct { unsigned pid; u64 time; unsigned sm, memory, encoder, decoder; } Sample;

typedef struct { const char *group; u64 soft, hard; } LimitsToSet;
typedef struct { const char *group; u64 soft, hard, used; } LimitsFound;
#define NO_LIMIT 0xFFFFFFFFFFFFFFFFull

/* How often NVML is open in this process, and which devices it has seen since then to be lost, a bit each. */
static int opened;
static u64 lost;
static u64 find_lost(void) {
    FILE *file = fopen(place("lost"), "r");
    int index, listed = 0;
    if (!file) return lost;
    for (; fscanf(file, "%d", &index) == 1; listed = 1) lost |= 1ull << index;
    fclose(file);
    if (!listed) lost = ~0ull;
    return lost;
}
static int are_all_lost(void) { return find_lost() == ~0ull; }
static Result find(Handle handle, Device *device) {
    Device devices[MOST];
    int count = read_devices(devices);
    if (handle < 1 || (int)handle > count) return are_all_lost() ? GPU_IS_LOST : INVALID_ARGUMENT;
    if (find_lost() >> (handle - 1) & 1) return GPU_IS_LOST;
    *device = devices[handle - 1];
    return OK;
}

Result nvmlInit_v2(void) {
    if (access(place("mismatch"), F_OK) == 0) return LIB_RM_VERSION_MISMATCH;
    if (!opened++) lost = 0;
    return OK;
}
Result nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
Result nvmlShutdown(void) { return opened ? (opened--, OK) : UNINITIALIZED; }
const char *nvmlErrorString(Result code) { (void)code; return "an error of the fake driver"; }

Result nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.00.00"); return OK; }

Result nvmlDeviceGetCount_v2(unsigned *count) {
    Device devices[MOST];
    *count = (unsigned)read_devices(devices);
    return are_all_lost() ? GPU_IS_LOST : OK;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *handle) {
    Device device;
    *handle = index + 1;
    return find(*handle, &device);
}

Result nvmlDeviceGetHandleByUUID(const char *uuid, Handle *handle) {
    Device devices[MOST];
    int count = read_devices(devices);
    if (find_lost()) return GPU_IS_LOST; /* as NVIDIA documents: if any device is lost */
    for (int i = 0; i < count; i++)
        if (!strcmp(devices[i].uuid, uuid)) { *handle = (Handle)i + 1; return OK; }
    return NOT_FOUND;
}

Result nvmlDeviceGetUUID(Handle handle, char *text, unsigned size) {
    Device device;
    Result result = find(handle, &device);
    if (result == OK) snprintf(text, size, "%s", device.uuid);
    return result;
}

Result nvmlDeviceGetName(Handle handle, char *text, unsigned size) {
    Device device;
    Result result = find(handle, &device);
    if (result == OK) snprintf(text, size, "NVIDIA Fake GPU");
    return result;
}

Result nvmlDeviceGetMinorNumber(Handle handle, unsigned *minor) { *minor = (unsigned)handle - 1; return OK; }

Result nvmlDeviceGetMigMode(Handle handle, unsigned *current, unsigned *pending) {
    (void)handle;
    *current = *pending = access(place("mig"), F_OK) == 0;
    return *current ? OK : NOT_SUPPORTED;
}

Result nvmlDeviceGetMemoryInfo(Handle handle, Memory *memory) {
    Device device;
    Result result = find(handle, &device);
    if (result != OK) return result;
    int lock = enter();
    memory->used = used_of((int)handle - 1);
    leave(lock);
    memory->total = device.total;
    memory->free = device.total - memory->used;
    return OK;
}

static int is_client(int pid) {
    FILE *file = fopen(place("mps"), "r");
    int each, found = 0;
    if (!file) return 0;
    while (!found && fscanf(file, "%d", &each) == 1) found = each == pid;
    fclose(file);
    return found;
}

/* List the processes on a device that use MPS, or those that do not. */
static Result list(Handle handle, unsigned *size, ProcessInfo *found, int clients) {
    Device device;
    Process processes[MOST];
    Result result = find(handle, &device);
    if (result != OK) return result;
    int lock = enter(), count = read_processes(processes);
    unsigned listed = 0;
    leave(lock);
    for (int i = 0; i < count; i++) {
        u64 bytes = bytes_on(&processes[i], (int)handle - 1);
        if (!bytes || is_client(processes[i].pid) != clients) continue;
        if (found && listed < *size) found[listed] = (ProcessInfo){ (unsigned)processes[i].pid, bytes, ~0u, ~0u };
        listed++;
    }
    result = listed > *size ? INSUFFICIENT_SIZE : OK;
    *size = listed;
    return result;
}

Result nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, unsigned *size, ProcessInfo *found) {
    return list(handle, size, found, 0);
}

Result nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle handle, unsigned *size, ProcessInfo *found) {
    return list(handle, size, found, 1);
}

Result nvmlDeviceGetProcessUtilization(Handle handle, Sample *found, unsigned *size, u64 since) {
    (void)handle; (void)found; (void)since;
    *size = 0;
    return NOT_FOUND;
}

/* Check what both functions for limits need: a device, the ability, and a group that exists. */
static Result check(Handle handle, const char *group) {
    Device device;
    Result result = find(handle, &device);
    if (result != OK) return result;
    if (access(place("unlimited"), F_OK) == 0) return NOT_SUPPORTED;
    return group && access(group, F_OK) == 0 ? OK : NOT_FOUND;
}

Result nvmlDeviceGetMemoryLimits_v1(Handle handle, LimitsFound *limits) {
    Result result = check(handle, limits->group);
    char group[512];
    size_t index;
    u64 soft, hard;
    if (result != OK) return result;
    limits->soft = limits->used = 0;
    limits->hard = NO_LIMIT;
    FILE *file = fopen(place("limits"), "r");
    while (file && fscanf(file, "%zu %llu %llu %511s", &index, &soft, &hard, group) == 4)
        if (index + 1 == handle && !strcmp(group, limits->group)) { limits->soft = soft; limits->hard = hard; }
    if (file) fclose(file);
    return OK;
}

Result nvmlDeviceSetMemoryLimits_v1(Handle handle, const LimitsToSet *limits) {
    Result result = check(handle, limits->group);
    if (result != OK) return result;
    if (access(place("user"), F_OK) == 0) return NO_PERMISSION;
    if (limits->hard < limits->soft) return INVALID_ARGUMENT;
    if (access(place("forgetful"), F_OK) == 0) return OK;
    /* The last line of a group counts. Like the driver, keep whole units of 1 GiB. */
    u64 hard = limits->hard == NO_LIMIT ? NO_LIMIT : limits->hard >> 30 << 30;
    FILE *file = fopen(place("limits"), "a");
    fprintf(file, "%zu %llu %llu %s\n", handle - 1, limits->soft, hard, limits->group);
    fclose(file);
    return OK;
}
