#include "kernels/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

Status error_set(Error *error, Status status, const char *format, ...) {
    if (!error) return status;
    error->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return status;
}

Status error_prefix(Error *error, const char *format, ...) {
    if (!error) return STATUS_OK;
    Error old = *error;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    if (n < 0) n = 0;
    if ((size_t)n < sizeof error->message)
        snprintf(error->message + n, sizeof error->message - (size_t)n, "%s", old.message);
    return error->status;
}
