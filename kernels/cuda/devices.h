// Which of the machine's cards palaver takes, and what it says where it takes none: what it is and what to do, in a line.
// Plain C, tested without a GPU (tests/kernels/test_cards.c); device.cu asks CUDA and hands over what it answers.
#ifndef PALAVER_KERNELS_CUDA_DEVICES_H
#define PALAVER_KERNELS_CUDA_DEVICES_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DEVICES_MOST = 64,          // cards that are looked at
    DEVICES_LEAST_COMPUTE = 80, // compute capability, times ten
};

// Of CUDA's error codes those that say something of the driver.
enum {
    DEVICES_STUB_LIBRARY = 34,
    DEVICES_INSUFFICIENT_DRIVER = 35,
    DEVICES_NO_DEVICE = 100,
    DEVICES_NOT_READY = 802,
    DEVICES_DRIVER_MISMATCH = 803,
};

// What counting the cards has shown.
typedef struct DevicesFound {
    int code;             // CUDA's error; 0: none
    const char *trouble;  // the same in CUDA's words
    int driver, runtime;  // newest CUDA that the driver knows, as 13010, 0: no driver; the plug-in's own
    int n;                // cards
    bool on_bus;          // devices_on_bus()
    const char *let_seen; // $CUDA_VISIBLE_DEVICES; NULL: not set
} DevicesFound;

typedef struct DeviceFacts {
    char name[256]; // "NVIDIA H200"
    int compute;    // capability, times ten: 90
    int64_t bytes;
} DeviceFacts;

// Whether the PCI bus has a display controller or an accelerator by NVIDIA; `root` is put before every path: "" but in
// tests. False where there is no such bus, too.
bool devices_on_bus(const char *root);

// STATUS_DEVICE: there is no card, and why. `fully`: with what was looked at, for --version.
Status devices_check(const DevicesFound *found, bool fully, Error *error);

// The card for "cuda:N", or for "cuda" the first that is new enough. STATUS_USAGE: there is no such number;
// STATUS_DEVICE: it is too old.
Status devices_choose(const char *device, const DeviceFacts *cards, int n, int *index, Error *error);

// The cards for "cuda:0,2" or "cuda:all": indexes [*n], at most `most`. STATUS_USAGE: a number that is not there, or twice;
// STATUS_DEVICE: one that is too old, or not like the first: what several cards compute together must be alike.
Status devices_choose_several(const char *device, const DeviceFacts *cards, int n_cards, int most,
                              int *indexes, int *n, Error *error);

// A line about all of them, as --device names them: "cuda:0 NVIDIA H200, 141 GB; cuda:1 …".
void devices_list(const DeviceFacts *cards, int n, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
