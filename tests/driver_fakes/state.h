/* The state that the two fake libraries share: one machine in the folder $GQ_FAKE_DRIVER.

   devices        a line for each device: UUID, total bytes
   PID            what a process holds: state (0 running, 1 locked, 2 checkpointed, 3 failed), and for each device that its
                  program knows the bytes there, and the index of the device on which these are since the last restore
   PID.busy       the GPU work of the process never ends
   PID.managed    the process uses managed memory
   PID.oom        a restore of the process finds too little memory
   mps            ids of processes that use a device through MPS
   limits         a line for each control group with limits: index of the device, soft and hard limit in bytes, its folder
   user           only root may set limits, and the caller is not root
   unlimited      the driver cannot limit the memory of these devices
   forgetful      the driver accepts limits and keeps none
   lost           the devices are lost, or only those whose indexes it holds; a process whose NVML has seen that must
                  close and open it to find them again
   mig            the devices are partitioned
   mismatch       the libraries and the kernel module are of different versions
   version        the version of CUDA; 13000 if missing */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <dirent.h>

typedef unsigned long long u64;
typedef struct { char uuid[64]; u64 total; } Device;
#define MOST 64
typedef struct { int pid, state; u64 bytes[MOST]; int place[MOST]; } Process;

enum { RUNNING, LOCKED, CHECKPOINTED, FAILED };

static const char *place(const char *name) {
    static __thread char text[4][512];
    static __thread int next;
    char *found = text[next++ % 4];
    snprintf(found, 512, "%s/%s", getenv("GQ_FAKE_DRIVER") ? getenv("GQ_FAKE_DRIVER") : "/nonexistent", name);
    return found;
}

__attribute__((unused)) static int marked(int pid, const char *mark) {
    char name[64];
    snprintf(name, sizeof name, "%d.%s", pid, mark);
    return access(place(name), F_OK) == 0;
}

/* Exclude all other processes until `leave`. */
__attribute__((unused)) static int enter(void) {
    int handle = open(place("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (flock(handle, LOCK_EX) && errno == EINTR) {}
    return handle;
}

__attribute__((unused)) static void leave(int handle) { close(handle); }

__attribute__((unused)) static int read_devices(Device *found) {
    FILE *file = fopen(place("devices"), "r");
    int count = 0;
    if (!file) return 0;
    while (count < MOST && fscanf(file, "%63s %llu", found[count].uuid, &found[count].total) == 2) count++;
    fclose(file);
    return count;
}

/* Whether a process runs. One that has ended and was not reaped has given its memory back, as with the real driver. */
static int is_alive(int pid) {
    char name[32], line[256];
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    FILE *file = fopen(name, "r");
    char *end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL; /* ") S": the state */
    if (file) fclose(file);
    return end && end[1] && end[2] != 'Z' && end[2] != 'X';
}

static int read_process(int pid, Process *found) {
    char name[32];
    snprintf(name, sizeof name, "%d", pid);
    FILE *file = fopen(place(name), "r");
    if (!file) return 0;
    memset(found, 0, sizeof *found);
    found->pid = pid;
    for (int i = 0; i < MOST; i++) found->place[i] = i;
    int fields = fscanf(file, "%d", &found->state);
    for (int i = 0; i < MOST && fscanf(file, "%llu %d", &found->bytes[i], &found->place[i]) == 2; i++) {}
    fclose(file);
    return fields == 1 && is_alive(pid);
}

__attribute__((unused)) static void write_process(const Process *process) {
    char name[32], temporary[48];
    snprintf(name, sizeof name, "%d", process->pid);
    snprintf(temporary, sizeof temporary, "%s.tmp", name);
    FILE *file = fopen(place(temporary), "w");
    if (!file) return;
    fprintf(file, "%d", process->state);
    for (int i = 0; i < MOST; i++) fprintf(file, " %llu %d", process->bytes[i], process->place[i]);
    fprintf(file, "\n");
    fclose(file);
    rename(place(temporary), place(name));
}

__attribute__((unused)) static int read_processes(Process *found) {
    DIR *folder = opendir(place(""));
    struct dirent *entry;
    int count = 0;
    if (!folder) return 0;
    while (count < MOST && (entry = readdir(folder))) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && !*end && read_process((int)pid, &found[count])) count++;
    }
    closedir(folder);
    return count;
}

/* The bytes of a process on a device. */
__attribute__((unused)) static u64 bytes_on(const Process *process, int device) {
    u64 found = 0;
    for (int i = 0; i < MOST; i++) if (process->place[i] == device) found += process->bytes[i];
    return process->state == RUNNING || process->state == LOCKED ? found : 0;
}

__attribute__((unused)) static u64 used_of(int device) {
    Process processes[MOST];
    u64 used = 0;
    for (int i = read_processes(processes) - 1; i >= 0; i--)
        used += bytes_on(&processes[i], device);
    return used;
}
