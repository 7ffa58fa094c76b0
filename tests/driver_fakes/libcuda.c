/* A fake libcuda.so.1: the checkpoint functions, and the few others that a program needs to hold memory. */
#include "state.h"

typedef int Result;
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, OPERATING_SYSTEM = 304, ILLEGAL_STATE = 401,
       NOT_READY = 600, NOT_SUPPORTED = 801, SYSTEM_DRIVER_MISMATCH = 803 };
typedef struct { unsigned char old[16], new[16]; } Pair;
typedef struct { Pair *pairs; unsigned count; char reserved0[44]; u64 reserved1; } RestoreArguments;

__attribute__((unused)) static int is_zero(const void *bytes, size_t size) {
    for (const char *each = bytes; size--; each++) if (*each) return 0;
    return 1;
}

Result cuInit(unsigned flags) {
    Device devices[MOST];
    if (access(place("mismatch"), F_OK) == 0) return SYSTEM_DRIVER_MISMATCH;
    return flags ? INVALID_VALUE : read_devices(devices) ? OK : NO_DEVICE;
}

Result cuDriverGetVersion(int *version) {
    FILE *file = fopen(place("version"), "r");
    *version = 13000;
    if (file) { if (fscanf(file, "%d", version) != 1) *version = 13000; fclose(file); }
    return OK;
}

Result cuGetErrorName(Result code, const char **name) {
    *name = code == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : code == OPERATING_SYSTEM ? "CUDA_ERROR_OPERATING_SYSTEM"
          : code == ILLEGAL_STATE ? "CUDA_ERROR_ILLEGAL_STATE" : code == NOT_READY ? "CUDA_ERROR_NOT_READY"
          : code == NOT_SUPPORTED ? "CUDA_ERROR_NOT_SUPPORTED"
          : code == SYSTEM_DRIVER_MISMATCH ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : NULL;
    return *name ? OK : INVALID_VALUE;
}

/* --- what a program calls ------------------------------------------------------------------------------------- */

/* The device of the context that is current. */
static int current;

static void begin_process(Process *own) {
    memset(own, 0, sizeof *own);
    own->pid = getpid();
    for (int i = 0; i < MOST; i++) own->place[i] = i;
}

/* Wait until this process is running, as every call of a suspended process does; then change what it holds. */
static Result change_own(long long bytes, int device) {
    for (;;) {
        int lock = enter();
        Device devices[MOST];
        Process own;
        int count = read_devices(devices);
        if (!read_process(getpid(), &own)) begin_process(&own);
        if (own.state == FAILED) { leave(lock); return OPERATING_SYSTEM; }
        if (own.state == RUNNING) {
            Result result = OK;
            int place = own.place[device];
            if (place >= count) result = NO_DEVICE;
            else if (bytes > 0 && used_of(place) + bytes > devices[place].total) result = OUT_OF_MEMORY;
            else { own.bytes[device] += bytes; write_process(&own); }
            leave(lock);
            return result;
        }
        leave(lock);
        usleep(5000);
    }
}

Result cuDeviceGet(int *device, int index) { *device = index; return OK; }
/* A context is the number of its device plus one; a restore may take its memory to another device. */
Result cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)(size_t)(device + 1);
    return change_own(0, device);
}
Result cuCtxSetCurrent(void *context) { current = (int)(size_t)context - 1; return OK; }
Result cuMemAlloc_v2(u64 *pointer, size_t size) {
    int device = current;
    Result result = change_own((long long)size, device);
    if (result == OK) {
        u64 *head = malloc(2 * sizeof(u64) + 8); /* the size, the device, and the first bytes of the memory */
        head[0] = size;
        head[1] = (u64)device;
        *pointer = (u64)(size_t)(head + 2);
    }
    return result;
}
/* The memory itself lies in the host here; what counts is that the process has some. */
Result cuMemAllocManaged(u64 *pointer, size_t size, unsigned flags) {
    char name[32];
    snprintf(name, sizeof name, "%d.managed", getpid());
    FILE *file = size && flags == 1 ? fopen(place(name), "w") : NULL;
    if (!file) return INVALID_VALUE;
    fclose(file);
    *pointer = (u64)(size_t)malloc(8);
    return OK;
}
Result cuMemFree_v2(u64 pointer) {
    u64 *head = (u64 *)(size_t)pointer - 2;
    Result result = change_own(-(long long)head[0], (int)head[1]);
    if (result == OK) free(head);
    return result;
}
Result cuMemcpyHtoD_v2(u64 to, const void *from, size_t size) {
    Result result = size > 8 ? INVALID_VALUE : change_own(0, current);
    if (result == OK) memcpy((void *)(size_t)to, from, size);
    return result;
}
Result cuMemcpyDtoH_v2(void *to, u64 from, size_t size) {
    Result result = change_own(0, current);
    if (result == OK) memcpy(to, (void *)(size_t)from, size < 8 ? size : 8); /* there are no more bytes than these */
    return result;
}

#ifndef OLD_DRIVER /* such as 535, which has none of them */
/* --- the checkpoint functions --------------------------------------------------------------------------------- */

Result cuCheckpointProcessGetState(int pid, int *state) {
    Process process;
    if (!read_process(pid, &process)) return INVALID_VALUE;
    *state = process.state;
    return OK;
}

Result cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) {
    Process process;
    if (!read_process(pid, &process)) return INVALID_VALUE;
    *thread = pid;
    return OK;
}

/* Take a process from one state to the next. */
static Result step(int pid, int from, int to) {
    Process process;
    int lock = enter();
    Result result = !read_process(pid, &process) ? INVALID_VALUE : process.state != from ? ILLEGAL_STATE : OK;
    if (result == OK) { process.state = to; write_process(&process); }
    leave(lock);
    return result;
}

Result cuCheckpointProcessLock(int pid, const unsigned *arguments) {
    Process process;
    if (arguments && !is_zero(arguments + 1, 60)) return INVALID_VALUE;
    if (!read_process(pid, &process)) return INVALID_VALUE;
    if (process.state == RUNNING && marked(pid, "busy")) {
        if (!arguments || !arguments[0]) pause(); /* without a time-out the driver waits for ever */
        usleep(arguments[0] * 1000);
        return NOT_READY;
    }
    return step(pid, RUNNING, LOCKED);
}

Result cuCheckpointProcessCheckpoint(int pid, const void *arguments) {
    if (arguments && !is_zero(arguments, 64)) return INVALID_VALUE;
    if (marked(pid, "managed")) {
        Result result = step(pid, LOCKED, LOCKED);
        return result == OK ? NOT_SUPPORTED : result;
    }
    return step(pid, LOCKED, CHECKPOINTED);
}

static int find_device(const Device *devices, int count, const unsigned char *uuid) {
    char text[64], *end = text + snprintf(text, sizeof text, "GPU-");
    for (int i = 0; i < 16; i++)
        end += snprintf(end, 8, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    for (int i = 0; i < count; i++) if (!strcmp(devices[i].uuid, text)) return i;
    return -1;
}

Result cuCheckpointProcessRestore(int pid, const RestoreArguments *arguments) {
    Device devices[MOST];
    Process process;
    int lock = enter(), count = read_devices(devices);
    Result result = !read_process(pid, &process) ? INVALID_VALUE : process.state == FAILED ? OPERATING_SYSTEM
                  : process.state != CHECKPOINTED ? ILLEGAL_STATE : OK;
    Process moved = process;
    if (result == OK && arguments && arguments->count) {
        if ((int)arguments->count != count || !is_zero(arguments->reserved0, 52)) result = INVALID_VALUE;
        for (unsigned i = 0; result == OK && i < arguments->count; i++) {
            int from = find_device(devices, count, arguments->pairs[i].old);
            int to = find_device(devices, count, arguments->pairs[i].new);
            if (from < 0 || to < 0) result = INVALID_VALUE;
            for (int j = 0; result == OK && j < MOST; j++) if (process.place[j] == from) moved.place[j] = to;
        }
    }
    if (result == OK) {
        int full = marked(pid, "oom");
        moved.state = LOCKED;
        for (int i = 0; i < count; i++) {
            u64 needed = bytes_on(&moved, i);
            full |= needed && used_of(i) + needed > devices[i].total;
        }
        process.state = FAILED;
        write_process(full ? &process : &moved);
        if (full) result = OUT_OF_MEMORY;
    }
    leave(lock);
    return result;
}

Result cuCheckpointProcessUnlock(int pid, const void *arguments) {
    if (arguments && !is_zero(arguments, 64)) return INVALID_VALUE;
    return step(pid, LOCKED, RUNNING);
}
#endif
