// By what the channels of int8 layers are divided (engine/smoothing.h), as it was measured when the model was first loaded
// so: kept below palaver's cache folder, for a measurement evaluates 128 tokens on the CPU. A file each:
//
//   digest = "0123456789abcdef"  # the checksum (base/checksum.h) of all bytes after this line
//   version = 2                  # of this form, and of how scales are measured
//   of = "0123456789abcdef, 32 layers"
//   smoothed = 1                 # so many layers follow
//   [[layer]]                    # of those that are smoothed, ascending
//   index = 1
//   scales = 'PPOQP…'            # a letter a channel, its scale's log2: 'P' is 0, '@' -16, '`' 16
#ifndef PALAVER_ENGINE_SMOOTHING_FILE_H
#define PALAVER_ENGINE_SMOOTHING_FILE_H

#include "engine/model/model.h"
#include "kernels/base/path.h"

enum { SMOOTHING_FILE_VERSION = 2 };

// What scales are of, and where they lie.
typedef struct SmoothingFile {
    // The files' sizes, times (the change time, too), devices, inodes and samples (model_hash.h) as a number; layers.
    char of[64];
    char path[PATH_ROOM];
    int n_layers;
    const LayerWeights
        *layers; // [n_layers] as the files have them: a layer has as many channels as w_down columns
} SmoothingFile;

// Of a model that was read from files, and outlives *file. STATUS_FILE: no home folder is known, or one of its files is gone.
Status smoothing_file_of(const Model *model, SmoothingFile *file, Error *error);

// Into scales [n_layers], all NULL before: of layers that are smoothed malloc'ed [channels]. False, and all NULL: there
// is no file, or not one that smoothing_file_write() of this version makes of the same, or memory is short.
bool smoothing_file_read(const SmoothingFile *file, float **scales);
// The same of a text of `length` bytes.
bool smoothing_file_parse(const SmoothingFile *file, const char *text, size_t length, float **scales);

// Replaces the file at once, and makes the folders above it. scales [n_layers]: powers of two from 2^-16 to 2^16, or NULL.
// STATUS_UNSUPPORTED: there are more than a TOML file has room for.
Status smoothing_file_write(const SmoothingFile *file, float *const *scales, Error *error);

#endif
