// `palaver --jsonl`: conversations from stdin, one a line, answered many at once.
//
// A thread reads and parses lines into a queue; this one, which owns the engine, takes them into the scheduler's rows
// and writes each answer as soon as it is finished, so that whatever ends the program loses none of these: after
// Ctrl-C, SIGTERM, a reader that leaves or a full disk there are whole lines, and the lines without an answer are
// named.
#include "app/commands/argument.h"
#include "app/loading/choose_template.h"
#include "app/loading/load.h"
#include "app/loading/model_name.h"
#include "app/modes/jsonl/jsonl_answers.h"
#include "app/modes/jsonl/jsonl_ids.h"
#include "app/modes/jsonl/jsonl_reader.h"
#include "app/modes/modes.h"
#include "app/process/signals.h"
#include "app/settings/settings_conversation.h"
#include "app/settings/settings_tell.h"
#include "kernels/base/clock.h"
#include "kernels/base/path.h"
#include "kernels/base/text/quote.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    QUEUED = 64,       // lines that are read ahead of the rows
    IDLE = 100,        // milliseconds between looks at the signals where there is nothing to do
    WRONG_A_STEP = 64, // wrong lines answered before the rows go on
    RANGES = 8,        // of lines that are named when not all are answered
};

// Lines that were read, but not answered. Their numbers have room from the beginning: at the end there may be no
// memory.
typedef struct Rest {
    long long *lines; // [n] NULL: not opened
    int n;
} Rest;

typedef struct Jsonl {
    const Options *options;
    Settings *settings;
    Screen *screen;
    Engine *engine;
    ChatTemplate *chat_template;
    Scheduler *scheduler;
    ItemQueue *queue;
    JsonlReader *reader;
    char *system;  // of --system; NULL: none
    uint64_t seed; // of conversations that name none
    bool input_ended;
    JsonlLine **given; // [n_given] in rows
    int n_given;
    JsonlAnswers answers;
    long long n_drawn; // tokens
    Rest rest;
    SettingsTold told;
    bool told_of_model, told_of_id;
    JsonlIds ids;     // until one was told of
    Grammar *grammar; // of the last line that had one: lines often have the same
    double start;
} Jsonl;

// ---- the work -------------------------------------------------------------------------------------------------------

// A line cannot choose its model.
static void tell_model(Jsonl *j, const JsonlLine *line) {
    const Model *model = engine_model(j->engine);
    char ours[PATH_ROOM]; // as /export writes it; the file may call itself something else
    model_name(checkpoint_path(model->checkpoint), model->name, ours, sizeof ours);
    if (!line->model || j->told_of_model || !strcmp(line->model, ours) || !strcmp(line->model, model->name))
        return;
    j->told_of_model = true;
    screen_notice(j->screen,
                  "[stdin:%lld: \"model\": \"%s\" is not what answers; all lines are answered by one model]",
                  line->line, quote(line->model).text);
}

// Who has two answers of one id may take the one for the other.
static void tell_id(Jsonl *j, const JsonlLine *line) {
    char id[QUOTE_ROOM];
    const long long before = j->told_of_id ? 0 : jsonl_ids_add(&j->ids, line, id, sizeof id);
    if (!before) return;
    jsonl_ids_free(&j->ids);
    j->told_of_id = true;
    screen_notice(
        j->screen,
        "[stdin:%lld: its id, %s, is that of line %lld, too; every line is answered, but only --ordered "
        "tells which answer is whose]",
        line->line, id, before);
}

// The line's settings, and what they refer to. A grammar that the line before had, too, is not compiled again.
static Status make_settings(Jsonl *j, JsonlLine *line, const Settings *from) {
    SettingsMade *made = &line->made;
    made->grammar = grammar_share(j->grammar);
    Status status =
        settings_conversation(from, engine_tokenizer(j->engine), made, &line->item.settings, &line->error);
    if (!status && line->format_text) {
        if (!made->grammar) made->grammar = grammar_share(j->grammar);
        status = settings_grammar(line->format, line->format_text, strlen(line->format_text), &made->grammar,
                                  &line->error);
        if (status) error_prefix(&line->error, "response_format: ");
        line->item.settings.grammar = made->grammar;
    }
    if (status || !made->grammar) return status;
    grammar_close(j->grammar);
    j->grammar = grammar_share(made->grammar);
    return STATUS_OK;
}

// A seed for the line of a place, of the program's; the first one's is that itself. By SplitMix64 (Steele et al., "Fast
// splittable pseudorandom number generators", OOPSLA 2014), for lines of neighbouring seeds are to have nothing in common.
static uint64_t seed_of_place(uint64_t seed, long long place) {
    if (place == 0) return seed;
    uint64_t z = seed + (uint64_t)place * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) >> 1; // as settings have them, below 2^63
}

// A line's numbers come from its seed alone, as a chat's do: the one that it names, else one of the program's for its place,
// which the answer tells. So a line that names an answer's seed is answered alike, wherever it stands.
static void set_numbers(const Jsonl *j, JsonlLine *line, const Settings *from) {
    const int64_t seed = from->sampling.seed;
    const bool own = line->settings && seed != SETTINGS_SEED_RANDOM &&
                     config_origin_layer(&from->config, settings_key("sampling.seed")) == CONFIG_SESSION;
    const uint64_t of_all = seed == SETTINGS_SEED_RANDOM ? j->seed : (uint64_t)seed;
    line->item.settings.seed = own ? of_all : seed_of_place(of_all, line->number);
    line->item.settings.stream = 0;
}

static Status give(Jsonl *j, JsonlLine *line, Error *error) {
    const Settings *from = line->settings ? line->settings : j->settings;
    Status status = line->error.status;
    tell_id(j, line);
    if (!status) status = make_settings(j, line, from);
    if (status) {
        line->error.status = status;
        return jsonl_answers_deliver(&j->answers, line, error);
    }
    tell_model(j, line);
    set_numbers(j, line, from);
    if (line->complete) return jsonl_answers_deliver(&j->answers, line, error);
    j->given[j->n_given++] = line;
    scheduler_give(j->scheduler, &line->item);
    return STATUS_OK;
}

static Status deliver_finished(Jsonl *j, Error *error) {
    Status status = STATUS_OK;
    for (SchedulerItem *item; !status && (item = scheduler_finished(j->scheduler));) {
        JsonlLine *line = (JsonlLine *)((char *)item - offsetof(JsonlLine, item));
        int at = 0;
        while (j->given[at] != line) at++;
        j->given[at] = j->given[--j->n_given];
        status = jsonl_answers_deliver(&j->answers, line, error);
    }
    return status;
}

// Refills the rows; waits a moment if there is nothing else to do.
static Status take_lines(Jsonl *j, Error *error) {
    Status status = STATUS_OK;
    for (int n = 0; n < WRONG_A_STEP && !status && !j->input_ended && scheduler_wants(j->scheduler); n++) {
        if (jsonl_answers_full(&j->answers)) break; // the earlier one is in a row
        void *line;
        QueueState state = item_queue_take(j->queue, scheduler_running(j->scheduler) ? 0 : IDLE, &line);
        j->input_ended = state == QUEUE_ENDED;
        if (state != QUEUE_ITEM) break;
        status = give(j, line, error);
        if (!status) status = deliver_finished(j, error); // it may have failed at once
    }
    return status;
}

static void show_status(Jsonl *j) {
    char text[160];
    double seconds = clock_seconds() - j->start;
    int waiting = scheduler_waiting(j->scheduler); // for memory
    snprintf(text, sizeof text, "%lld done, %d running, %d waiting, %.1f tok/s", j->answers.n_written,
             scheduler_running(j->scheduler) - waiting,
             item_queue_length(j->queue) + j->answers.n_held + waiting,
             seconds > 0 ? (double)scheduler_drawn(j->scheduler) / seconds : 0);
    screen_status(j->screen, text);
}

static Status answer_all(Jsonl *j, Error *error) {
    Status status = STATUS_OK;
    while (!status) {
        if (*signals_interrupt()) return error_set(error, STATUS_INTERRUPTED, "interrupted");
        status = take_lines(j, error);
        if (status || (j->input_ended && scheduler_running(j->scheduler) == 0)) break;
        status = scheduler_step(j->scheduler, error);
        Error second; // what is finished goes out whatever the step came to
        Status delivered = deliver_finished(j, status ? &second : error);
        if (!status) status = delivered;
        if (!status) show_status(j);
    }
    return status;
}

// ---- beginning and end ----------------------------------------------------------------------------------------------

static Status open_all(Jsonl *j, Error *error) {
    SchedulerOptions options = {.interrupt = signals_interrupt()};
    j->start = clock_seconds();
    j->seed = settings_random_seed();
    j->told.own_sampling = true;
    settings_tell(j->settings, j->engine, j->screen, &j->told);
    Status status = choose_template(j->screen, j->settings, j->engine, &j->chat_template, error);
    if (!status) status = scheduler_open(j->engine, j->chat_template, &options, &j->scheduler, error);
    if (!status && j->options->system)
        status = argument_read_system("--system", j->options->system, ENCODING_UTF8, &j->system, error);
    const size_t rows = (size_t)engine_rows(j->engine);
    j->given = calloc(rows, sizeof(JsonlLine *));
    const size_t most = rows + JSONL_ANSWERS_HELD + rows + QUEUED + 1; // given, held, in the queue, unwritten
    j->rest.lines = calloc(most, sizeof *j->rest.lines);
    if (!status && (!j->given || !j->rest.lines)) status = error_set(error, STATUS_MEMORY, "out of memory");
    if (!status) status = item_queue_open(QUEUED, &j->queue, error);
    const char *system = j->system && *j->system ? j->system : NULL;
    if (!status) status = jsonl_reader_open(STDIN_FILENO, j->queue, j->settings, system, &j->reader, error);
    return status;
}

static int by_line(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

// Names lines [n]: "3, 13-28".
static void name_lines(long long *lines, int n, char *text, size_t size) {
    size_t used = 0;
    int ranges = 0;
    qsort(lines, (size_t)n, sizeof *lines, by_line);
    *text = 0;
    for (int i = 0; i < n && used < size; ranges++) {
        int last = i;
        while (last + 1 < n && lines[last + 1] == lines[last] + 1) last++;
        if (ranges == RANGES) {
            snprintf(text + used, size - used, ", …");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, last > i ? "%s%lld-%lld" : "%s%lld", i ? ", " : "",
                                 lines[i], lines[last]);
        i = last + 1;
    }
}

// Adds a line and frees it; NULL is fine.
static void drop(Rest *rest, JsonlLine *line) {
    if (line && rest->lines) rest->lines[rest->n++] = line->line;
    jsonl_line_free(line);
}

// What was taken and not answered is freed, and told.
static void drop_rest(Jsonl *j) {
    Rest *rest = &j->rest;
    if (rest->lines && j->answers.unwritten) rest->lines[rest->n++] = j->answers.unwritten;
    for (int i = 0; i < j->answers.n_held; i++) drop(rest, j->answers.held[i]);
    for (int i = 0; i < j->n_given; i++) drop(rest, j->given[i]);
    j->answers.n_held = j->n_given = 0;
    for (void *line; j->queue && item_queue_take(j->queue, 0, &line) == QUEUE_ITEM;) drop(rest, line);
    char text[400];
    if (rest->lines && rest->n > 0) {
        name_lines(rest->lines, rest->n, text, sizeof text);
        screen_say(j->screen, "palaver: stdin: not answered: line%s %s%s", rest->n == 1 ? "" : "s", text,
                   j->input_ended ? "" : ", and what follows");
    }
    free(rest->lines);
    *rest = (Rest){0};
}

static void close_all(Jsonl *j) {
    item_queue_close(j->queue);
    chat_template_close(j->chat_template);
    jsonl_answers_free(&j->answers);
    free(j->given);
    free(j->system);
    grammar_close(j->grammar);
    jsonl_ids_free(&j->ids);
}

static int exit_of(const Jsonl *j, Status status) {
    if (status == STATUS_INTERRUPTED) return exit_status_of_interrupt();
    if (status || j->answers.n_failed) return EXIT_RUNTIME;
    return j->answers.n_refused ? EXIT_CONTEXT : j->answers.n_wrong ? EXIT_SCRIPT : EXIT_WELL;
}

static int run(Program *program) {
    Jsonl j = {.options = &program->options,
               .settings = &program->settings,
               .screen = program->screen,
               .engine = program->engine,
               .answers = {.screen = program->screen, .ordered = program->options.ordered}};
    Error error = {0}, second;
    Status status = open_all(&j, &error);
    if (!status) status = answer_all(&j, &error);
    bool output = status != STATUS_FILE && !j.answers.unwritten; // that of stdout
    if (output && jsonl_answers_flush(&j.answers, &second) && !status)
        status = error_set(&error, STATUS_FILE, "%s", second.message);
    screen_progress_end(j.screen);
    Status read = jsonl_reader_close(j.reader, &second);
    if (status) screen_error(j.screen, "%s", error.message);
    if (read) screen_error(j.screen, "%s", second.message);
    bool began = j.scheduler != NULL;
    if (began) j.n_drawn = scheduler_drawn(j.scheduler);
    scheduler_close(j.scheduler); // before the lines that it works on
    drop_rest(&j);
    if (began) jsonl_answers_sum_up(&j.answers, j.n_drawn, clock_seconds() - j.start);
    int result = exit_of(&j, status ? status : read);
    close_all(&j);
    return result;
}

int jsonl_main(Program *program) {
    Error error;
    if (program_find_model(program, NULL, &error)) return program_fail(program, &error, EXIT_MODEL);
    Status status = program_load_model(program, &error);
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    const Engine *engine = program->engine;
    if (engine_full_sessions(engine) < engine_rows(engine))
        screen_notice(program->screen,
                      "[the cache has room for %d whole windows of %d tokens, for %d conversations at once]",
                      engine_full_sessions(engine), engine_context_size(engine), engine_rows(engine));
    return run(program);
}
