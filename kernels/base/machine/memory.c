#include "kernels/base/machine/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, LARGE_PAGE = 2 << 20 };

void *memory_of_large_pages(int64_t bytes) {
    const int64_t page = bytes < LARGE_PAGE ? CACHE_LINE : LARGE_PAGE;
    void *memory = aligned_alloc((size_t)page, (size_t)((bytes + page - 1) / page * page));
    if (memory && page == LARGE_PAGE) (void)madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
    return memory;
}

// ---- control groups -----------------------------------------------------------------------------------

// The first line of the file `name` in `folder`; false if there is none.
static bool read_line(const char *folder, const char *name, char *line, int size) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool read = fgets(line, size, file) != NULL;
    fclose(file);
    return read;
}

static bool read_number(const char *folder, const char *name, int64_t *number) {
    char line[64];
    long long value;
    if (!read_line(folder, name, line, sizeof line) || sscanf(line, "%lld", &value) != 1) return false;
    *number = value;
    return true;
}

static FILE *open_under(const char *root, const char *name) {
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s%s", root, name) < (int)sizeof path ? fopen(path, "re") : NULL;
}

// The folder of this process's group in a hierarchy: version 2's where controller is "", else version 1's.
static bool group_folder(const char *root, const char *controller, char *folder, size_t size) {
    char line[PATH_MAX];
    bool found = false;
    FILE *file = open_under(root, "/proc/self/cgroup");
    if (file == NULL) return false;
    while (!found && fgets(line, sizeof line, file) != NULL) { // "4:cpu,cpuacct:/path", "0::/path"
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (path == NULL) continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        if (strcmp(path, "/") == 0) path = "";
        bool second = *controller == 0;
        for (char *name = names + 1; name != NULL; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
            size_t length = strcspn(name, ",");
            if (length != strlen(controller) || strncmp(name, controller, length) != 0) continue;
            int n =
                snprintf(folder, size, "%s/sys/fs/cgroup%s%s%s", root, second ? "" : "/", controller, path);
            found = n > 0 && (size_t)n < size;
            break;
        }
    }
    fclose(file);
    return found;
}

// Calls look() for the group's folder and each one above it: every level limits what is below. Inside a
// container the path may not exist under its own root; then the root itself is looked at.
typedef void (*Look)(const char *folder, bool second, void *result);

static void look_upwards(const char *root, const char *controller, Look look, void *result) {
    char folder[PATH_MAX];
    if (!group_folder(root, controller, folder, sizeof folder)) return;
    size_t top = strlen(root) + strlen("/sys/fs/cgroup") + (*controller ? 1 + strlen(controller) : 0);
    for (;;) {
        look(folder, *controller == 0, result);
        if (strlen(folder) <= top) return;
        char *slash = strrchr(folder, '/');
        *slash = 0;
    }
}

// ---- memory -------------------------------------------------------------------------------------------

typedef struct MemoryLimit {
    int64_t total, available;
} MemoryLimit;

// What files' cached pages take can be had back, so it counts as available: also those read more than once, as a model's
// are (active), as the kernel counts them in MemAvailable. A file system in memory is not among them.
static uint64_t cached_files(const char *folder, bool second) {
    char path[PATH_MAX], line[128];
    unsigned long long bytes = 0;
    uint64_t sum = 0;
    if (snprintf(path, sizeof path, "%s/memory.stat", folder) >= (int)sizeof path) return 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    const char *inactive = second ? "inactive_file %llu" : "total_inactive_file %llu",
               *active = second ? "active_file %llu" : "total_active_file %llu";
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, inactive, &bytes) == 1 || sscanf(line, active, &bytes) == 1) sum += bytes;
    fclose(file);
    return sum;
}

static void look_at_memory(const char *folder, bool second, void *result) {
    MemoryLimit *limit = result;
    int64_t most, used;
    if (!read_number(folder, second ? "memory.max" : "memory.limit_in_bytes", &most)) return; // "max": none
    if (!read_number(folder, second ? "memory.current" : "memory.usage_in_bytes", &used)) return;
    const uint64_t cached = cached_files(folder, second);
    int64_t available = cached < (uint64_t)used ? most - used + (int64_t)cached : most;
    if (available < 0) available = 0;
    if (available > most) available = most;
    if (most < limit->total) limit->total = most;
    if (available < limit->available) limit->available = available;
}

void memory_available(const char *root, int64_t *total, int64_t *available) {
    MemoryLimit limit = {0, 0};
    char line[128];
    long long kib;
    FILE *file = open_under(root, "/proc/meminfo");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemTotal: %lld kB", &kib) == 1) limit.total = kib * 1024;
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) limit.available = kib * 1024;
    }
    if (file != NULL) fclose(file);
    look_upwards(root, "", look_at_memory, &limit);
    look_upwards(root, "memory", look_at_memory, &limit);
    *total = limit.total;
    *available = limit.available;
}

// ---- cores --------------------------------------------------------------------------------------------

static void look_at_quota(const char *folder, bool second, void *result) {
    char line[64];
    int64_t quota = 0, period = 0;
    long long a, b;
    if (second) {
        if (!read_line(folder, "cpu.max", line, sizeof line) || sscanf(line, "%lld %lld", &a, &b) != 2)
            return;
        quota = a;
        period = b;
    } else if (!read_number(folder, "cpu.cfs_quota_us", &quota) ||
               !read_number(folder, "cpu.cfs_period_us", &period)) {
        return;
    }
    if (quota <= 0 || period <= 0) return;
    int64_t cores = (quota - 1) / period + 1;
    int *least = result;
    if (*least == 0 || cores < *least) *least = (int)cores;
}

int cpu_quota(const char *root) {
    int least = 0;
    look_upwards(root, "", look_at_quota, &least);
    look_upwards(root, "cpu", look_at_quota, &least);
    return least;
}
