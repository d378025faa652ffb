// Which of a token's positions in time, height and width a pair of a head turns by, in models that see images. In a text these
// are all the same, and only what has no position at all is refused: a pair beyond its section (ggml's rope), which no file means.
#include "engine/model/config/unread.h"
#include "engine/model/model_internal.h"

// Of sections one after the other, classes cannot run others than together all pairs.
static Status check_config(const Model *model, const ParamSource *source, Error *error) {
    static const char *const OBJECTS[] = {"rope_scaling", "rope_parameters"};
    const json_t *list = NULL;
    int64_t sum = 0;
    if (source->architecture->sections != SECTIONS_IN_BLOCKS) return STATUS_OK;
    for (int i = 0; i < 2 && !list; i++)
        list = json_object_get(json_object_get(source->config, OBJECTS[i]), "mrope_section");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const int64_t pairs = json_integer_value(json_array_get(list, i));
        if (pairs < 0 || pairs > model->shape.rope.rotary_dim) break;
        sum += pairs;
    }
    if (!list) sum = source->architecture->default_sections;
    return 2 * sum == model->shape.rope.rotary_dim
               ? STATUS_OK
               : error_set(error, STATUS_FILE, "%s: rope: mrope_section has %lld pairs of a head's %d",
                           source->path, (long long)sum, model->shape.rope.rotary_dim / 2);
}

Status model_check_sections(const Model *model, const ParamSource *source, Error *error) {
    char text[KEY_SIZE];
    const char *key = source_gguf_key(source, "rope.dimension_sections", text);
    const MetaValue *list = source->config ? NULL : checkpoint_meta(source->checkpoint, key);
    MetaCursor cursor = {0};
    int64_t sections[3] = {0}, sum = 0;
    const bool in_turn = source->architecture->sections == SECTIONS_IN_TURN;
    bool fits = list && list->type == META_ARRAY && list->count <= 4;
    if (source->config) return check_config(model, source, error);
    if (!list || source->architecture->sections == SECTIONS_NONE) return STATUS_OK;
    unread_take_meta(source, key);
    for (int i = 0; i < 4 && fits; i++) {
        MetaValue value = {.type = META_INTEGER};
        if (i < list->count) fits = checkpoint_meta_next(list, &cursor, &value);
        fits = fits && value.type == META_INTEGER && value.integer >= 0 && value.integer < 1 << 16;
        if (i < 3) sections[i] = value.integer;
        sum += fits ? value.integer : 0;
    }
    const int64_t all = sections[0] + sections[1] + sections[2];
    for (int pair = 0; pair < model->shape.rope.rotary_dim / 2 && fits; pair++)
        fits = sum > 0 && pair % sum < (in_turn ? 3 * sections[pair % sum % 3] : all);
    return fits ? STATUS_OK
                : error_set(error, STATUS_UNSUPPORTED,
                            "%s: %s leaves some of %d pairs of a head without a position, which palaver "
                            "cannot run",
                            source->path, key, model->shape.rope.rotary_dim / 2);
}
