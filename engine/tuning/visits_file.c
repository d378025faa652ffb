#include "engine/tuning/visits_file.h"

#include "engine/loading/trial.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/text/toml.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 4096 };

Status visits_file_of(const Backend *backend, const Model *model, VisitsFile *file, Error *error) {
    const DecoderShape *s = &model->shape;
    const Experts *e = &s->experts;
    char how[400], tail[64];
    backend->ops->describe(backend, how, sizeof how);
    snprintf(file->of, sizeof file->of, "%s; h%d-i%d-q%d-kv%d-d%d-v%d-e%d-%d-%d-%d.%s", how, s->hidden_size,
             s->intermediate_size, s->n_heads, s->n_kv_heads, s->head_dim, s->vocab_size, e->n, e->n_active,
             e->size, e->shared_size, dtype_name(model_main_type(model)));
    for (char *p = file->of; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ') *p = '_'; // it is to stand in TOML
    snprintf(tail, sizeof tail, "visits/%016" PRIx64 ".toml",
             hash_bytes(HASH_START, file->of, strlen(file->of)));
    return path_cache(tail, file->path, error);
}

static bool is_text(const TomlNode *node, const char *text) {
    return node && node->type == TOML_STRING && node->length == strlen(text) && !strcmp(node->string, text);
}

bool visits_file_parse(const VisitsFile *file, const char *text, size_t length, int *visits_from) {
    TomlNode *root;
    Error ignored;
    if (toml_parse(file->path, text, length, &root, &ignored)) return false;
    const TomlNode *version = toml_child(root, "version"), *from = toml_child(root, "visits_from");
    const bool good = root->n_children == 3 && version && version->type == TOML_INTEGER &&
                      version->integer == VISITS_FILE_VERSION && is_text(toml_child(root, "of"), file->of) &&
                      from && from->type == TOML_INTEGER && trial_can_visit_from(from->integer);
    if (good) *visits_from = (int)from->integer;
    toml_free(root);
    return good;
}

bool visits_file_read(const VisitsFile *file, int *visits_from) {
    char *text;
    size_t size;
    bool missing;
    Error ignored;
    if (file_read_regular(file->path, MOST_BYTES, &text, &size, &missing, &ignored) || missing) return false;
    const bool good = visits_file_parse(file, text, size, visits_from);
    free(text);
    return good;
}

Status visits_file_write(const VisitsFile *file, int visits_from, Error *error) {
    char text[MOST_BYTES];
    Status status = path_make_folder_of(file->path, 0755, error);
    const int n =
        snprintf(text, sizeof text,
                 "# From how many tokens of a prompt on layers of the CPU are computed on the GPU: "
                 "measured when the model\n# was first loaded so, and kept, that the same prompt gives "
                 "the same text. 0: never. Without this file it\n# is measured anew.\n"
                 "version = %d\nof = \"%s\"\nvisits_from = %d\n",
                 VISITS_FILE_VERSION, file->of, visits_from);
    return status ? status : file_write(file->path, text, (size_t)n, 0644, error);
}
