#include "kernels/cuda/devices.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVIDIA = 0x10de, DISPLAY = 0x03, ACCELERATOR = 0x12 }; // of PCI: the vendor, classes

// ---- what there is --------------------------------------------------------------------------------------------

// A file of one hexadecimal number; 0 where it cannot be read.
static unsigned long bus_number(const char *folder, const char *device, const char *name) {
    char path[PATH_MAX], line[32] = "";
    if (snprintf(path, sizeof path, "%s/%s/%s", folder, device, name) >= (int)sizeof path) return 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (!fgets(line, sizeof line, file)) *line = 0;
    fclose(file);
    return strtoul(line, NULL, 16);
}

bool devices_on_bus(const char *root) {
    char folder[PATH_MAX];
    bool found = false;
    if (snprintf(folder, sizeof folder, "%s/sys/bus/pci/devices", root) >= (int)sizeof folder) return false;
    DIR *bus = opendir(folder);
    if (!bus) return false;
    for (struct dirent *d; !found && (d = readdir(bus)) != NULL;) {
        if (*d->d_name == '.' || bus_number(folder, d->d_name, "vendor") != NVIDIA) continue;
        const unsigned long kind = bus_number(folder, d->d_name, "class") >> 16;
        found = kind == DISPLAY || kind == ACCELERATOR;
    }
    closedir(bus);
    return found;
}

// Which driver the plug-in's CUDA wants. NVIDIA names its drivers otherwise; of CUDA 13 it is known.
static const char *driver_wanted(int runtime) {
    return runtime / 1000 == 13 ? "580 or newer" : "the newest";
}

// Nothing is wrong where there is no card: most people without one read this every day.
static Status no_card(const DevicesFound *f, bool fully, Error *error) {
    char looked_at[100] = "";
    if (fully && f->driver)
        snprintf(looked_at, sizeof looked_at, " (its driver, for CUDA %d.%d, finds none)", f->driver / 1000,
                 f->driver % 1000 / 10);
    else if (fully)
        snprintf(looked_at, sizeof looked_at, " (none on the PCI bus, and no driver)");
    return error_set(error, STATUS_DEVICE, "no NVIDIA GPU%s", looked_at);
}

Status devices_check(const DevicesFound *f, bool fully, Error *error) {
    const int code = f->code;
    if (code == 0 && f->n > 0) return STATUS_OK;
    if (code == DEVICES_INSUFFICIENT_DRIVER && f->driver > 0 && f->driver / 1000 < f->runtime / 1000)
        return error_set(
            error, STATUS_DEVICE,
            "the NVIDIA driver knows CUDA %d.%d only, palaver needs %d.0: update the driver to %s",
            f->driver / 1000, f->driver % 1000 / 10, f->runtime / 1000, driver_wanted(f->runtime));
    if (code == DEVICES_INSUFFICIENT_DRIVER && f->driver == 0)
        return f->on_bus
                   ? error_set(error, STATUS_DEVICE,
                               "an NVIDIA GPU without NVIDIA's driver: install %s (a container: start it "
                               "with --gpus all)",
                               driver_wanted(f->runtime))
                   : no_card(f, fully, error);
    if (code == 0 || code == DEVICES_NO_DEVICE) {
        if (f->let_seen)
            return error_set(error, STATUS_DEVICE,
                             "CUDA_VISIBLE_DEVICES=\"%s\" leaves no NVIDIA GPU: unset it to use one",
                             f->let_seen);
        return f->on_bus
                   ? error_set(error, STATUS_DEVICE,
                               "the NVIDIA driver does not find the GPU that is there: nvidia-smi says why")
                   : no_card(f, fully, error);
    }
    if (code == DEVICES_STUB_LIBRARY)
        return error_set(
            error, STATUS_DEVICE,
            "a stub of CUDA's stands for the NVIDIA driver: take its folder out of LD_LIBRARY_PATH");
    if (code == DEVICES_DRIVER_MISMATCH)
        return error_set(error, STATUS_DEVICE,
                         "the NVIDIA driver was updated, and the old one still runs: restart the machine");
    if (code == DEVICES_NOT_READY)
        return error_set(error, STATUS_DEVICE,
                         "the NVIDIA driver is not ready yet: wait, or start nvidia-fabricmanager");
    return error_set(error, STATUS_DEVICE, "the NVIDIA driver fails: %s; nvidia-smi may say why",
                     f->trouble ? f->trouble : "unknown error");
}

// ---- which one --------------------------------------------------------------------------------------------------

static bool suits(const DeviceFacts *card) {
    return card->compute >= DEVICES_LEAST_COMPUTE;
}

// The first that is new enough, or n.
static int first_suiting(const DeviceFacts *cards, int n) {
    int i = 0;
    while (i < n && !suits(&cards[i])) i++;
    return i;
}

static Status too_old(const DeviceFacts *cards, int n, int index, Error *error) {
    const DeviceFacts *card = &cards[index];
    char way_out[300] = "--device cpu does without";
    const int other = first_suiting(cards, n);
    if (other < n) snprintf(way_out, sizeof way_out, "take cuda:%d, %s", other, cards[other].name);
    return error_set(error, STATUS_DEVICE,
                     "%s has compute capability %d.%d, palaver needs %d.%d (RTX 30, A100 or newer): %s",
                     card->name, card->compute / 10, card->compute % 10, DEVICES_LEAST_COMPUTE / 10,
                     DEVICES_LEAST_COMPUTE % 10, way_out);
}

Status devices_choose(const char *device, const DeviceFacts *cards, int n, int *index, Error *error) {
    *index = 0;
    if (!strncmp(device, "cuda:", 5)) {
        char *end;
        long number = strtol(device + 5, &end, 10);
        if (end == device + 5 || *end || number < 0 || number >= n)
            return error_set(error, STATUS_USAGE, "device \"%s\": there %s %d, cuda:0%s", device,
                             n == 1 ? "is" : "are", n, n == 1 ? "" : " and on");
        *index = (int)number;
    } else {
        const int first = first_suiting(cards, n);
        if (first < n) *index = first;
    }
    return suits(&cards[*index]) ? STATUS_OK : too_old(cards, n, *index, error);
}

// The numbers behind "cuda:"; STATUS_USAGE: they are none, one is not there or twice, or too many.
static Status read_numbers(const char *device, int n_cards, int most, int *indexes, int *n, Error *error) {
    const char *text = device + 5;
    if (!strcmp(text, "all")) {
        for (*n = 0; *n < n_cards && *n < most; ++*n) indexes[*n] = *n;
        return STATUS_OK;
    }
    for (*n = 0;; text++) {
        char *end;
        const long number = strtol(text, &end, 10);
        if (end == text || (*end && *end != ',') || number < 0 || number >= n_cards)
            return error_set(error, STATUS_USAGE, "device \"%s\": there %s %d, cuda:0%s", device,
                             n_cards == 1 ? "is" : "are", n_cards, n_cards == 1 ? "" : " and on");
        for (int i = 0; i < *n; i++)
            if (indexes[i] == (int)number)
                return error_set(error, STATUS_USAGE, "device \"%s\" names card %ld twice", device, number);
        if (*n == most)
            return error_set(error, STATUS_USAGE, "device \"%s\": at most %d cards", device, most);
        indexes[(*n)++] = (int)number;
        text = end;
        if (!*end) return STATUS_OK;
    }
}

Status devices_choose_several(const char *device, const DeviceFacts *cards, int n_cards, int most,
                              int *indexes, int *n, Error *error) {
    Status status = read_numbers(device, n_cards, most, indexes, n, error);
    for (int i = 0; i < *n && !status; i++) {
        const DeviceFacts *card = &cards[indexes[i]], *first = &cards[indexes[0]];
        if (!suits(card)) return too_old(cards, n_cards, indexes[i], error);
        if (strcmp(card->name, first->name) != 0 || card->compute != first->compute)
            return error_set(
                error, STATUS_DEVICE,
                "device \"%s\": cuda:%d is %s, cuda:%d %s; cards that work together must be alike: name "
                "those that are",
                device, indexes[0], first->name, indexes[i], card->name);
    }
    return status;
}

void devices_list(const DeviceFacts *cards, int n, char *text, size_t size) {
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < n && used < size; i++) {
        const DeviceFacts *c = &cards[i];
        char old[80] = "";
        if (!suits(c))
            snprintf(old, sizeof old, " (compute capability %d.%d: too old)", c->compute / 10,
                     c->compute % 10);
        used += (size_t)snprintf(text + used, size - used, "%scuda:%d %s, %.0f GB%s", i ? "; " : "", i,
                                 c->name, (double)c->bytes / 1e9, old);
    }
}
