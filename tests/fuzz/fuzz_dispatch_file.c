// Tables of measured kernels: what is taken is in range, what is refused has a reason.
#include "engine/tuning/dispatch_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const CardFacts CARD = {.name = "NVIDIA H200", .compute = 90, .driver = 13000, .runtime = 13000};
    DispatchFile file;
    Error error = {0};
    if (dispatch_file_parse("fuzz.toml", (const char *)data, size, &CARD, &file, &error)) {
        if (!*error.message || strchr(error.message, '\n')) abort();
        return 0;
    }
    if (file.table.n < 1 || file.table.n > DISPATCH_MOST_ROWS || !(file.read_speed > 0)) abort();
    for (int i = 0; i < file.table.n; i++) {
        const DispatchRow *row = &file.table.rows[i];
        if (row->n_out < 1 || row->n_in < 1 || row->flat_from < 1 || row->library_from < row->flat_from)
            abort();
        if (row->flat_from > DISPATCH_GEMV_MOST + 1 || row->library_from > DISPATCH_LAST_N) abort();
        if (row->type < DTYPE_F32 || row->type >= DTYPE_COUNT) abort();
    }
    return 0;
}
