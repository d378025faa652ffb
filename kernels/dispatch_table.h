// Which implementation of a linear layer serves how many rows: what `palaver tune` measures, and a backend goes by.
//
//   1 ≤ n < flat_from              GEMV: on a GPU's plain cores, for the few rows that it can
//   flat_from ≤ n < library_from   flat GEMM: W is the tall side of the tensor cores' GEMM
//   library_from ≤ n               the library's GEMM, or one by tiles of many rows
#ifndef PALAVER_KERNELS_DISPATCH_TABLE_H
#define PALAVER_KERNELS_DISPATCH_TABLE_H

#include "kernels/dtype.h"

typedef enum LinearWay { LINEAR_BY_TABLE, LINEAR_GEMV, LINEAR_FLAT, LINEAR_LIBRARY, LINEAR_N_WAYS } LinearWay;

enum {
    DISPATCH_MOST_ROWS = 64,
    DISPATCH_GEMV_MOST = 4,    // rows of x that a GEMV takes at most: flat_from is 1 … 5
    DISPATCH_LAST_N = 1 << 20, // library_from is at most that
};

typedef struct DispatchRow {
    int n_out, n_in; // W is [n_out, n_in]; 0, 0: any
    DType type;      // of W, as the backend keeps it
    int flat_from, library_from;
} DispatchRow;

// The first row that fits counts.
typedef struct DispatchTable {
    int n;
    DispatchRow rows[DISPATCH_MOST_ROWS];
} DispatchTable;

#endif
