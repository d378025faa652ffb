// Figures as people read them.
#ifndef PALAVER_BASE_FORMAT_H
#define PALAVER_BASE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

enum { FORMAT_ROOM = 16 };

// Powers of 1,000: "94 MB", "1.2 GB". Below 10 with one digit behind the point.
void format_bytes(double bytes, char text[FORMAT_ROOM]);
// The other way round: "2 GB", "1.5gb", "300" (bytes), "off" and "0" (none). False: no such amount.
bool format_read_bytes(const char *text, int64_t *bytes);
// Of parameters: "9.5M", "135M", "6.7B".
void format_count(int64_t count, char text[FORMAT_ROOM]);

#endif
