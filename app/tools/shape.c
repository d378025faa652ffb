#include "app/tools/shape.h"

#include "app/ranks/ranks.h"

#include "engine/model/weights/conversion.h"
#include "engine/model/shape/model_shape.h"
#include "engine/tuning/tuning.h"

#include <string.h>

Status shape_model(const Options *o, Model **model, Error *error) {
    const char *name = o->shape_weights ? o->shape_weights : "bf16";
    // int8 and int4 are what layers become where they are converted: the head stays in 16 bits.
    DType head = DTYPE_BF16, type = DTYPE_F32;
    if (!strcmp(name, conversion_name(WEIGHTS_INT8))) {
        type = DTYPE_W8;
    } else if (!strcmp(name, conversion_name(WEIGHTS_INT4))) {
        type = DTYPE_Q4_0;
    } else {
        while (type < DTYPE_INT8 && strcmp(dtype_name(type), name) != 0) type++;
        head = type;
    }
    if (type == DTYPE_INT8)
        return error_set(error, STATUS_USAGE,
                         "--weights %s: no such type; f32, f16, bf16, int8, int4, q8_0, q4_0, … there are",
                         name);
    return model_of_shape(o->shape, type, head, model, error);
}

Status shape_open(Program *program, Error *error) {
    const Options *o = &program->options;
    Model *model;
    RanksText text;
    Status status = shape_model(o, &model, error);
    if (status) return status;
    int decode = o->decode ? o->decode : 128, prefill = o->prefill ? o->prefill : 1024;
    int depth = o->depth ? o->depth : 1,
        longest = (o->parallel && depth < prefill ? prefill : depth) + decode;
    if (!o->parallel && o->depth && longest < depth + prefill)
        longest = depth + prefill; // a prompt behind them
    longest = (longest > prefill ? longest : prefill) + 8;
    EngineOptions options = program->settings.engine;
    status = ranks_find(&program->settings, program->screen, &options.world, &text, error);
    if (status) {
        model_close(model);
        return status;
    }
    if (options.context_size == 0) options.context_size = longest;
    options.cache = load_cache_options(program->screen, &program->settings, program_room(program));
    options.n_rows = o->parallel;
    options.chunk = 1024;
    options.random_weights = true;
    options.weights = options.head = WEIGHTS_OWN; // a file's settings: there is nothing to convert
    if (o->command == COMMAND_TUNE || o->dispatch) tuning_set_room(&options);
    status = engine_open_model(model, &options, &program->engine, error);
    if (!status) load_tell_dispatch(program->screen, program->engine);
    return status;
}
