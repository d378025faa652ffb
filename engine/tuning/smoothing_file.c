#include "engine/tuning/smoothing_file.h"

#include "engine/files/checkpoint.h"
#include "engine/model/model_hash.h"
#include "kernels/base/checksum.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/text/toml.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGEST_LINE "digest = \"%016" PRIx64 "\"\n"
enum {
    ZERO = 'P',
    MOST = 16,
    DIGEST_BYTES = sizeof "digest = \"0123456789abcdef\"\n" - 1,
    HEAD_BYTES = 512,
    LAYER_BYTES = 64
};

Status smoothing_file_of(const Model *model, SmoothingFile *file, Error *error) {
    uint64_t hash = model_hash(model, HASH_START);
    char tail[64];
    const char *missing = model_hash_files(model->checkpoint, &hash);
    if (missing) return error_set(error, STATUS_FILE, "%s cannot be looked at", missing);
    file->n_layers = model->shape.n_layers, file->layers = model->file_layers;
    snprintf(file->of, sizeof file->of, "%016" PRIx64 ", %d layers", hash, file->n_layers);
    snprintf(tail, sizeof tail, "smoothing/%016" PRIx64 ".toml", hash);
    return path_cache(tail, file->path, error);
}

// 0: of a layer that is not to be smoothed.
static size_t channels(const SmoothingFile *file, int layer) {
    const LayerWeights *w = &file->layers[layer];
    return w->router.data ? 0 : (size_t)w->w_down.cols;
}

// ---- reading ----------------------------------------------------------------------------------------------------

static bool is_number(const TomlNode *node, int64_t from, int64_t to) {
    return node && node->type == TOML_INTEGER && node->integer >= from && node->integer <= to;
}

static bool is_text(const TomlNode *node, size_t length) {
    return node && node->type == TOML_STRING && node->length == length;
}

static bool read_layer(const SmoothingFile *file, const TomlNode *layer, int *last, float **scales) {
    if (layer->type != TOML_TABLE || layer->n_children != 2) return false;
    const TomlNode *index = toml_child(layer, "index"), *letters = toml_child(layer, "scales");
    if (!is_number(index, *last + 1, file->n_layers - 1)) return false;
    *last = (int)index->integer;
    const size_t n = channels(file, *last);
    if (n == 0 || !is_text(letters, n)) return false;
    float *s = scales[*last] = malloc(n * sizeof *s);
    for (size_t i = 0; s && i < n; i++) {
        const int by = letters->string[i] - ZERO;
        if (by < -MOST || by > MOST) return false;
        s[i] = ldexpf(1, by);
    }
    return s != NULL;
}

// The first line, of all that follows it.
static void print_digest(char line[DIGEST_BYTES + 1], const char *rest, size_t length) {
    snprintf(line, DIGEST_BYTES + 1, DIGEST_LINE, checksum_of(rest, length));
}

static bool is_whole(const char *text, size_t length) {
    char line[DIGEST_BYTES + 1];
    if (length < DIGEST_BYTES) return false;
    print_digest(line, text + DIGEST_BYTES, length - DIGEST_BYTES);
    return !memcmp(text, line, DIGEST_BYTES);
}

static bool read_layers(const SmoothingFile *file, const TomlNode *root, float **scales) {
    const TomlNode *version = toml_child(root, "version"), *of = toml_child(root, "of"),
                   *smoothed = toml_child(root, "smoothed"), *layers = toml_child(root, "layer");
    const size_t n = layers ? layers->n_children : 0;
    int last = -1;
    if (root->n_children != (layers ? 5u : 4u) || // and the digest
        !is_number(version, SMOOTHING_FILE_VERSION, SMOOTHING_FILE_VERSION) ||
        !is_text(of, strlen(file->of)) || strcmp(of->string, file->of) ||
        (layers && layers->type != TOML_ARRAY) || !is_number(smoothed, (int64_t)n, (int64_t)n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!read_layer(file, &layers->children[i], &last, scales)) return false;
    return true;
}

bool smoothing_file_parse(const SmoothingFile *file, const char *text, size_t length, float **scales) {
    TomlNode *root;
    Error ignored;
    if (!is_whole(text, length) || toml_parse(file->path, text, length, &root, &ignored)) return false;
    const bool good = read_layers(file, root, scales);
    for (int l = 0; !good && l < file->n_layers; l++) free(scales[l]), scales[l] = NULL;
    toml_free(root);
    return good;
}

bool smoothing_file_read(const SmoothingFile *file, float **scales) {
    char *text;
    size_t size;
    bool missing;
    Error ignored;
    if (file_read_regular(file->path, TOML_MAX_BYTES, &text, &size, &missing, &ignored) || missing)
        return false;
    const bool good = smoothing_file_parse(file, text, size, scales);
    free(text);
    return good;
}

// ---- writing ----------------------------------------------------------------------------------------------------

static size_t print_layer(char *to, int index, const float *scales, size_t n) {
    size_t used = (size_t)snprintf(to, LAYER_BYTES, "[[layer]]\nindex = %d\nscales = '", index);
    for (size_t i = 0; i < n; i++) to[used++] = (char)(ZERO + lrintf(log2f(scales[i])));
    to[used++] = '\'', to[used++] = '\n';
    return used;
}

Status smoothing_file_write(const SmoothingFile *file, float *const *scales, Error *error) {
    size_t most = HEAD_BYTES, used = DIGEST_BYTES;
    char digest[DIGEST_BYTES + 1];
    int smoothed = 0;
    for (int l = 0; l < file->n_layers; l++)
        if (scales[l]) most += LAYER_BYTES + channels(file, l), smoothed++;
    if (most > TOML_MAX_BYTES)
        return error_set(error, STATUS_UNSUPPORTED, "%s: %zu bytes are more than such a file may have",
                         file->path, most);
    char *text = malloc(most);
    if (!text) return error_set(error, STATUS_MEMORY, "no memory to keep how layers are smoothed");
    used += (size_t)snprintf(text + used, HEAD_BYTES - used,
                             "# By what channels of a model in int8 are divided: measured when it was first "
                             "loaded so, and kept,\n# for measuring takes seconds to minutes. Without this "
                             "file, or where anything in it was changed, it is measured anew.\nversion = "
                             "%d\nof = \"%s\"\nsmoothed = %d\n",
                             SMOOTHING_FILE_VERSION, file->of, smoothed);
    for (int l = 0; l < file->n_layers; l++)
        if (scales[l]) used += print_layer(text + used, l, scales[l], channels(file, l));
    print_digest(digest, text + DIGEST_BYTES, used - DIGEST_BYTES);
    memcpy(text, digest, DIGEST_BYTES);
    Status status = path_make_folder_of(file->path, 0755, error);
    if (!status) status = file_write(file->path, text, used, 0644, error);
    free(text);
    return status;
}
