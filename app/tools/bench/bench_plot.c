// `palaver bench --plot FILE`: speeds as a picture.
#include "app/tools/bench/bench_internal.h"

#include "app/loading/model_name.h"
#include "engine/files/checkpoint.h"
#include "engine/model/model.h"
#include "kernels/base/file.h"
#include "kernels/base/path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_POINTS = 24,
    FIRST_DEPTH = 64,
    STEPS = 16, // tokens decoded at each depth
    RUNS = 2,
    ROW_PROMPT = 128, // tokens in the cache of each row
    WIDTH = 640,
    PANEL = 300, // height of one diagram
    LEFT = 76,
    RIGHT = 28,
    TOP = 74,
    BOTTOM = 56,
    INSET = 30, // of the first and the last point
};

typedef struct Points {
    double x[MOST_POINTS], y[MOST_POINTS];
    int n;
} Points;

// ---- measuring ------------------------------------------------------------------------------------------------------

static Status measure_depths(Engine *engine, Points *points, Error *error) {
    const int size = engine_context_size(engine), vocab = engine_model(engine)->shape.vocab_size;
    Session *session = NULL;
    int32_t *ids = malloc((size_t)size * sizeof *ids);
    Status status =
        ids ? session_open(engine, &session, error) : error_set(error, STATUS_MEMORY, "no memory for tokens");
    for (int depth = FIRST_DEPTH; !status && points->n < MOST_POINTS; depth *= 2) {
        if (depth > size - STEPS) break;
        const BenchSettings b = {.decode = STEPS, .depth = depth, .repeat = RUNS};
        double seconds = 0;
        status = bench_decode_time(session, ids, &b, vocab, &seconds, error);
        if (!status) points->x[points->n] = depth, points->y[points->n++] = 1 / seconds;
    }
    session_close(session);
    free(ids);
    return status;
}

static Status measure_rows(Engine *engine, int most, Points *points, Error *error) {
    Status status = STATUS_OK;
    for (int rows = 1; !status && points->n < MOST_POINTS;
         rows = rows < most && 2 * rows > most ? most : 2 * rows) {
        if (rows > most) break;
        const BenchSettings b = {.prefill = ROW_PROMPT, .decode = STEPS, .parallel = rows};
        double speed = 0;
        status = bench_parallel_speed(engine, &b, &speed, error);
        if (!status) points->x[points->n] = rows, points->y[points->n++] = speed;
    }
    return status;
}

// ---- drawing --------------------------------------------------------------------------------------------------------

// A number of one digit and zeros, at or above `value`: where an axis ends.
static double round_up(double value) {
    double power = pow(10, floor(log10(value > 0 ? value : 1)));
    static const double steps[] = {1, 1.5, 2, 3, 4, 5, 6, 8, 10};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (value <= steps[i] * power) return steps[i] * power;
    return 10 * power;
}

typedef struct Panel {
    const Points *points;
    const char *title, *axis;
    int top;
    double most;
} Panel;

static double x_of(const Panel *p, double x) {
    const Points *points = p->points;
    double from = log2(points->x[0]), to = log2(points->x[points->n - 1]);
    return LEFT + INSET +
           (to > from ? (log2(x) - from) / (to - from) : 0.5) * (WIDTH - LEFT - RIGHT - 2 * INSET);
}

static double y_of(const Panel *p, double y) {
    const int height = PANEL - TOP - BOTTOM + 40;
    return p->top + 40 + (1 - y / p->most) * height;
}

static void draw_panel(const Panel *p, FILE *out) {
    const Points *points = p->points;
    fprintf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", LEFT, p->top + 18, p->title);
    for (int i = 0; i <= 4; i++) {
        double value = p->most * i / 4, y = y_of(p, value);
        fprintf(out,
                "<path d=\"M%d %.1fH%d\" stroke=\"#d5d9e0\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%g</text>\n",
                LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, value);
    }
    fputs("<polyline fill=\"none\" stroke=\"#3465a4\" stroke-width=\"2\" points=\"", out);
    for (int i = 0; i < points->n; i++)
        fprintf(out, "%s%.1f,%.1f", i ? " " : "", x_of(p, points->x[i]), y_of(p, points->y[i]));
    fputs("\"/>\n", out);
    for (int i = 0; i < points->n; i++) {
        double x = x_of(p, points->x[i]), y = y_of(p, points->y[i]);
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"#3465a4\"/>", x, y);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g</text>", x, y - 9,
                points->y[i]);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", x, y_of(p, 0) + 18,
                points->x[i]);
    }
    fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
            y_of(p, 0) + 38, p->axis);
}

static double most_of(const Points *points) {
    double most = 0;
    for (int i = 0; i < points->n; i++)
        if (points->y[i] > most) most = points->y[i];
    return round_up(1.05 * most);
}

static void put_escaped(const char *text, FILE *out) {
    for (; *text; text++) {
        const char *sign = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (sign)
            fputs(sign, out);
        else
            fputc((unsigned char)*text < ' ' ? '?' : *text, out);
    }
}

static void draw(Engine *engine, const Points *depths, const Points *rows, FILE *out) {
    const Model *model = engine_model(engine);
    char name[PATH_ROOM] = "", backend[200];
    const int height = TOP + (depths->n ? PANEL : 0) + (rows->n ? PANEL : 0);
    model_name(model->checkpoint ? checkpoint_path(model->checkpoint) : "", model->name, name, sizeof name);
    engine_describe_backend(engine, backend, sizeof backend);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "role=\"img\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n"
            "<g font-family=\"sans-serif\" font-size=\"13\" fill=\"#2e3436\">\n<text x=\"%d\" y=\"30\" "
            "font-size=\"17\">",
            WIDTH, height, WIDTH, height, WIDTH, height, LEFT);
    put_escaped(name, out);
    fprintf(out, "</text>\n<text x=\"%d\" y=\"50\">", LEFT);
    put_escaped(backend, out);
    fputs("</text>\n", out);
    if (depths->n)
        draw_panel(&(const Panel){depths, "tokens a second, one conversation", "tokens in the cache", TOP,
                                  most_of(depths)},
                   out);
    if (rows->n)
        draw_panel(&(const Panel){rows, "tokens a second, all conversations together",
                                  "conversations at once", TOP + (depths->n ? PANEL : 0), most_of(rows)},
                   out);
    fputs("</g>\n</svg>\n", out);
}

Status bench_plot(Engine *engine, const BenchSettings *settings, const char *path, Error *error) {
    Points depths = {.n = 0}, rows = {.n = 0};
    char *text = NULL;
    size_t size = 0;
    Status status = measure_depths(engine, &depths, error);
    if (!status && settings->parallel > 0) status = measure_rows(engine, settings->parallel, &rows, error);
    if (status) return status;
    if (!depths.n && !rows.n)
        return error_set(error, STATUS_CONTEXT, "--plot needs a context of more than %d tokens",
                         FIRST_DEPTH + STEPS);
    FILE *out = open_memstream(&text, &size);
    if (!out) return error_set(error, STATUS_MEMORY, "no memory for a picture");
    draw(engine, &depths, &rows, out);
    bool whole = !ferror(out);
    whole = !fclose(out) && whole;
    status = whole ? file_write(path, text, size, 0644, error)
                   : error_set(error, STATUS_MEMORY, "no memory for a picture");
    free(text);
    return status;
}
