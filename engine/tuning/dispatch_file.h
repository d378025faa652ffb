// What `palaver tune` has measured of a card and a model's shape, kept as TOML below palaver's cache folder, one file
// each:
//
//   version = 2                # of this form, and of the kernels it speaks of: older ones chose otherwise
//   card = "NVIDIA H200"       # compute = 90, driver = 13000, cuda = 13000
//   date = "2026-11-22"
//   read_gb_s = 4554.0         # at which the card reads
//   [[linear]]                 # one for each [n_out, n_in] and type: see kernels/dispatch_table.h
//   n_out = 12288
//   n_in = 4096
//   type = "q4_0"
//   flat_from = 3
//   library_from = 65
#ifndef PALAVER_ENGINE_DISPATCH_FILE_H
#define PALAVER_ENGINE_DISPATCH_FILE_H

#include "engine/model/model.h"
#include "kernels/tuning.h"

enum { DISPATCH_FILE_VERSION = 2 };

typedef struct DispatchFile {
    CardFacts card;
    char date[11];     // "2026-11-22"
    double read_speed; // bytes a second
    DispatchTable table;
} DispatchFile;

// Where that of a card and a model lies, into path [PATH_ROOM]; the name tells both. STATUS_FILE: no home folder is
// known.
Status dispatch_file_path(const CardFacts *card, const Model *model, char *path, Error *error);

// Reads what was measured on such a card. STATUS_OK with *missing: there is no file. STATUS_FILE: where it is not what
// dispatch_file_write() makes of this version, down to each key and number.
Status dispatch_file_read(const char *path, const CardFacts *card, DispatchFile *file, bool *missing,
                          Error *error);
// The same of a text of `length` bytes; `name` stands for the file in messages.
Status dispatch_file_parse(const char *name, const char *text, size_t length, const CardFacts *card,
                           DispatchFile *file, Error *error);

// Replaces the file at once, and makes the folders above it.
Status dispatch_file_write(const char *path, const DispatchFile *file, Error *error);

#endif
