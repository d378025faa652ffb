#include "kernels/base/text/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void format_bytes(double bytes, char text[FORMAT_ROOM]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 4) bytes /= 1000, unit++;
    snprintf(text, FORMAT_ROOM, bytes < 10 && unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

bool format_read_bytes(const char *text, int64_t *bytes) {
    static const char *const units[] = {"", "b", "kb", "mb", "gb", "tb"};
    static const double factors[] = {1, 1, 1e3, 1e6, 1e9, 1e12};
    char *end;
    *bytes = 0;
    if (!strcmp(text, "off")) return true;
    if (*text < '0' || *text > '9' || text[strspn(text, "0123456789.")] == 'e') return false;
    double amount = strtod(text, &end);
    end += strspn(end, " ");
    for (int i = 0; i < 6; i++) {
        if (strcasecmp(end, units[i]) || amount * factors[i] > 9e18) continue;
        *bytes = (int64_t)(amount * factors[i]);
        return true;
    }
    return false;
}

void format_count(int64_t count, char text[FORMAT_ROOM]) {
    if (count >= 1000000000)
        snprintf(text, FORMAT_ROOM, "%.1fB", (double)count / 1e9);
    else
        snprintf(text, FORMAT_ROOM, "%.*fM", count < 10000000 ? 1 : 0, (double)count / 1e6);
}
