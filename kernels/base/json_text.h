// JSON out of files, with messages that can be shown.
#ifndef PALAVER_ENGINE_JSON_TEXT_H
#define PALAVER_ENGINE_JSON_TEXT_H

#include "kernels/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// Parses `size` bytes of JSON, an object or array, no key twice. The caller owns *value, which is NULL after a failure:
// STATUS_FILE with `name`, the line and what is wrong there.
Status json_parse(const char *name, const char *text, size_t size, json_t **value, Error *error);

// Names from files stand in messages: printable ASCII is all that is taken for one.
bool is_printable(const char *text, size_t length);

// Text that will stand in messages: cut to fit, and what a terminal could act on becomes '?'. NUL-terminated.
void copy_printable(char *to, size_t size, const char *from, size_t length);

#endif
