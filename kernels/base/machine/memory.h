// What the machine offers this process: memory and cores, within its control group's limits.
#ifndef PALAVER_KERNELS_BASE_MACHINE_MEMORY_H
#define PALAVER_KERNELS_BASE_MACHINE_MEMORY_H

#include <stdint.h>

// Bytes of memory in all and available now: the machine's (/proc/meminfo), or less where a control group
// (v1 or v2) says so. 0 and 0 where nothing can be found out. `root` is put before every path: "" but in tests.
void memory_available(const char *root, int64_t *total, int64_t *available);

// Memory that starts at a multiple of 64, with large pages where it is large and the system has them; to free(). NULL: there
// is none. Rows that lie kilobytes apart, and weights that are read once a token, cost fewer misses then.
void *memory_of_large_pages(int64_t bytes);

// Cores' worth of time that the control group grants, rounded up; 0: no limit.
int cpu_quota(const char *root);

#endif
