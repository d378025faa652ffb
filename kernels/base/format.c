#include "kernels/base/format.h"

#include <stdio.h>

void format_bytes(double bytes, char text[FORMAT_ROOM]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 4) bytes /= 1000, unit++;
    snprintf(text, FORMAT_ROOM, bytes < 10 && unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

void format_count(int64_t count, char text[FORMAT_ROOM]) {
    if (count >= 1000000000)
        snprintf(text, FORMAT_ROOM, "%.1fB", (double)count / 1e9);
    else
        snprintf(text, FORMAT_ROOM, "%.*fM", count < 10000000 ? 1 : 0, (double)count / 1e6);
}
