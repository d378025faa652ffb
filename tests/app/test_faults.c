// The n-th allocation, write, fsync, … fails: nothing crashes, what was said is in the journal, and what is lost is
// told.
//
// The program is one whose calls fail as FAULT asks (tests/faults/inject.c). A first run records which calls there are
// and from where; then some 100 runs of each talk have a fault each. FAULTS=sites makes every place fail once,
// FAULTS=all every call.
#include "app/record/transcript/transcript.h"
#include "tests/support/runs/batch.h"
#include "tests/support/runs/faults.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAMPLE = 50 /* calls for memory of each talk that fail */, ROOM = 600 };

// ---- a talk ---------------------------------------------------------------------------------------------------

typedef struct Talk {
    const char *before, *after, *input; // the arguments around the model, and stdin
    char *out;                          // without a fault
    char *journals[2]; // likewise, their records without what is never the same: the first, and a copy's
    char *saved;       // likewise
    char *answers[5];  // of --jsonl, by line, without times
} Talk;

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rbe");
    if (!file) return NULL;
    fclose(file);
    Bytes bytes = bytes_of_file(path);
    bytes_add(&bytes, "", 1);
    return (char *)bytes.data;
}

// A journal's records, one a line, with sorted keys and without times; NULL unless each is an object.
static char *records_of(const char *text) {
    char *records = NULL;
    size_t size;
    FILE *out = open_memstream(&records, &size);
    bool ok = out != NULL;
    for (const char *line = text; ok && *line; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n');
        json_t *record = end ? json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, NULL) : NULL;
        ok = json_is_object(record);
        if (ok) {
            json_object_del(record, "created");
            json_object_del(record, "seconds");
            ok = !json_dumpf(record, out, JSON_SORT_KEYS) && putc('\n', out) != EOF;
        }
        json_decref(record);
    }
    fclose(out);
    if (ok) return records;
    free(records);
    return NULL;
}

static int lines_with(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

// The journals of a run: that of the talk and that of its copy, as they lie there. More than these: false.
static bool read_journals(const char *folder, char *journals[2]) {
    char path[2 * ROOM];
    snprintf(path, sizeof path, "%s/palaver/conversations", folder);
    journals[0] = journals[1] = NULL;
    DIR *directory = opendir(path);
    bool ok = true;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/palaver/conversations/%s", folder, entry->d_name);
        char **journal = &journals[!strcmp(entry->d_name, "copy.jsonl")];
        ok = ok && !*journal && strstr(entry->d_name, ".jsonl");
        free(*journal);
        *journal = read_text(path);
    }
    if (directory) closedir(directory);
    return ok;
}

// Whether the records of a run are those of the run without a fault, all of them (`whole`) or as far as they go: the
// last reply may have been cut short by what failed.
static bool same_records(const char *wanted, const char *records, bool whole) {
    size_t size = strlen(records);
    if (whole) return !strcmp(wanted, records);
    if (!strncmp(wanted, records, size)) return true;
    const char *last = records + size - 1;
    while (last > records && last[-1] != '\n') last--;
    return strstr(last, "\"interrupted\": true") && !strncmp(wanted, records, (size_t)(last - records));
}

// What is wrong with a journal: it has to be one that palaver reads, and to begin as that of a run without a fault.
static const char *judge_journal(const char *text, const char *wanted, bool whole) {
    Transcript *transcript;
    Error error;
    if (!text) return whole && wanted ? "a journal is missing" : NULL;
    if (!*text) return whole ? "a journal is empty" : NULL;
    if (transcript_parse("journal", text, strlen(text), &transcript, &error))
        return "a journal that cannot be read";
    transcript_free(transcript);
    char *records = records_of(text);
    const char *why = NULL;
    if (!records)
        why = "a journal has a line that is no record";
    else if (!wanted || !same_records(wanted, records, whole))
        why = "a journal with other records";
    free(records);
    return why;
}

static const char *judge_journals(const Talk *talk, const BatchRun *run) {
    char *journals[2];
    const char *why = read_journals(run->folder, journals) ? NULL : "a file beside the journals";
    for (int i = 0; i < 2 && !why; i++) why = judge_journal(journals[i], talk->journals[i], run->status == 0);
    // What the statistics speak of is kept, or it is said that it is not.
    int told = lines_with(run->err, "[turn "), kept = 0;
    for (int i = 0; i < 2; i++) {
        int n = lines_with(journals[i], "\"record\":\"turn\"");
        kept = n > kept ? n : kept;
    }
    if (!why && kept < told && !strstr(run->err, "journal") && !strstr(run->err, "not be kept"))
        why = "a turn is not in the journal, and nobody says so";
    free(journals[0]);
    free(journals[1]);
    return why;
}

// A file that /save wrote is whole, or it is not there.
static const char *judge_saved(const Talk *talk, const BatchRun *run) {
    char path[ROOM];
    snprintf(path, sizeof path, "%s/saved.jsonl", run->folder);
    char *text = read_text(path), *records = text ? records_of(text) : NULL;
    const char *why = NULL;
    if (text ? !records || strcmp(records, talk->saved) != 0 : run->status == 0)
        why = "the file of /save is not what it should be";
    free(text);
    free(records);
    return why;
}

static const char *judge_script(void *user, const BatchRun *run) {
    const Talk *talk = user;
    if (run->status > 5) return "a crash";
    if (run->status && !strstr(run->err, "palaver: ")) return "no message";
    if (!run->status && strcmp(run->out, talk->out) != 0) return "success, and other replies";
    size_t said = run->out_size; // what could not be finished ends with its line
    if (said && run->out[said - 1] == '\n') said--;
    if (run->status && strncmp(run->out, talk->out, said) != 0) return "other replies";
    const char *why = judge_journals(talk, run);
    return why ? why : judge_saved(talk, run);
}

static void prepare(void *user, const char *folder) {
    (void)user;
    char path[ROOM];
    snprintf(path, sizeof path, "%s/palaver", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    folder_write_text(path, "palaver.toml",
                      "[sampling]\ntop_k = 5\n[profile.warm.sampling]\ntemperature = 0.9\n");
}

// ---- the run without a fault ----------------------------------------------------------------------------------

static char record_path[ROOM];

static const char *take_script(void *user, const BatchRun *run) {
    Talk *talk = user;
    char path[ROOM], *journals[2];
    if (run->status) return "it should go well";
    talk->out = strdup(run->out);
    if (!read_journals(run->folder, journals) || !journals[0] || !journals[1])
        return "two journals are expected";
    for (int i = 0; i < 2; i++) {
        talk->journals[i] = records_of(journals[i]);
        free(journals[i]);
    }
    snprintf(path, sizeof path, "%s/saved.jsonl", run->folder);
    char *saved = read_text(path);
    talk->saved = records_of(saved);
    free(saved);
    return NULL;
}

static void run_faults(Talk *talk, const char *(*take)(void *, const BatchRun *),
                       const char *(*judge)(void *, const BatchRun *)) {
    char program[ROOM], model[4096], arguments[5000], setting[2 * ROOM];
    const char *path = program_path(), *slash = strrchr(path, '/');
    snprintf(program, sizeof program, "%.*s/faults/palaver", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
    char *whole = realpath(program, NULL);
    if (!whole) fail_msg("%s is missing", program);
    assert_non_null(realpath(BABBLER, model));
    snprintf(arguments, sizeof arguments, "%s%s%s", talk->before, model, talk->after);
    snprintf(record_path, sizeof record_path, "/tmp/palaver-faults-%d", (int)getpid());
    snprintf(setting, sizeof setting, "FAULT_RECORD=%s", record_path);
    Batch batch = {
        .program = whole, .arguments = arguments, .input = talk->input, .prepare = prepare, .user = talk};
    batch.judge = take;
    const char *const once[] = {setting};
    assert_int_equal(batch_run(&batch, once, 1), 0);
    Faults faults = faults_choose(record_path, SAMPLE);
    unlink(record_path);
    batch.judge = judge;
    int wrong = batch_run(&batch, (const char *const *)faults.set, faults.n);
    if (wrong) fail_msg("%d of %d runs", wrong, faults.n);
    faults_free(&faults);
    free(whole);
}

static void test_a_script(void **state) {
    (void)state;
    Talk talk = {.before = "",
                 .after = "|--seed=1|--max-tokens=4|--threads=2|--context=256|--stats",
                 .input =
                     "Hello there.\n/set temperature 0.7\nAnd of Italy?\n/config warm\n/retry 3\n/undo\n"
                     "/system Be brief.\nThird one.\n/save saved.jsonl\n/export md talk.md\n/say user Hi\n"
                     "/fork copy\nLast one.\n"};
    run_faults(&talk, take_script, judge_script);
    free(talk.out);
    free(talk.journals[0]);
    free(talk.journals[1]);
    free(talk.saved);
}

// ---- many conversations -----------------------------------------------------------------------------------------

enum { N_LINES = 4 };

// An answer as it has to be again: without times, and with sorted keys; NULL if it is no object.
static char *answer_text(const char *line, size_t size, int *number, bool *failed) {
    json_t *answer = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    json_object_del(json_object_get(answer, "usage"), "seconds");
    const json_t *id = json_object_get(answer, "id"), *place = json_object_get(answer, "line");
    *number = (int)json_integer_value(id ? id : place);
    *failed = json_object_get(answer, "error") != NULL;
    char *text = json_is_object(answer) ? json_dumps(answer, JSON_SORT_KEYS) : NULL;
    json_decref(answer);
    return text;
}

// Every line of `out` into answers [N_LINES + 1], by number; what failed is in `failed`.
static const char *read_answers(const char *out, char **answers, bool *failed) {
    for (const char *line = out, *end; *line; line = end + 1) {
        int number;
        bool wrong;
        if (!(end = strchr(line, '\n'))) return "a line without an end";
        char *text = answer_text(line, (size_t)(end - line), &number, &wrong);
        bool right = text && number >= 1 && number <= N_LINES && !answers[number];
        if (right)
            answers[number] = text, failed[number] = wrong;
        else
            free(text);
        if (!right) return text ? "an answer to nothing that was asked" : "a line that is no object";
    }
    return NULL;
}

// Whether "not answered: lines 2, 4-5, and what follows" names a line.
static bool is_named(const char *err, int line) {
    const char *at = strstr(err, "not answered: line");
    int first = 0, last = 0;
    if (!at) return false;
    for (at += strcspn(at, "0123456789"); *at >= '0' && *at <= '9'; at += strspn(at, ", ")) {
        char *end;
        first = last = (int)strtol(at, &end, 10);
        if (*end == '-') last = (int)strtol(end + 1, &end, 10);
        if (line >= first && line <= last) return true;
        at = end;
    }
    return line > last && strstr(at, "and what follows");
}

static const char *judge_answers(const Talk *talk, const BatchRun *run, char **answers, const bool *failed) {
    // It came to answering, and what is wrong is not the input itself, of which the message speaks.
    bool any = strstr(run->err, " answered") && !strstr(run->err, "[0 answered;") &&
               !strstr(run->err, "palaver: stdin:");
    for (int i = 1; i <= N_LINES; i++) {
        bool right = answers[i] && !strcmp(answers[i], talk->answers[i]);
        if (!run->status && !right) return "success, and another answer";
        if (answers[i] && !right && !failed[i]) return "another answer";
        if (run->status && any && !answers[i] && !is_named(run->err, i))
            return "a line that nobody speaks of";
    }
    return NULL;
}

static const char *judge_lines(void *user, const BatchRun *run) {
    char *answers[N_LINES + 1] = {NULL};
    bool failed[N_LINES + 1] = {false};
    if (run->status > 5) return "a crash";
    if (run->status && !strstr(run->err, "palaver: ") && !strstr(run->out, "\"error\"")) return "no message";
    const char *why = read_answers(run->out, answers, failed);
    if (!why) why = judge_answers(user, run, answers, failed);
    for (int i = 1; i <= N_LINES; i++) free(answers[i]);
    return why;
}

static const char *take_lines(void *user, const BatchRun *run) {
    Talk *talk = user;
    bool failed[N_LINES + 1];
    return run->status ? "it should go well" : read_answers(run->out, talk->answers, failed);
}

static void test_lines(void **state) {
    (void)state;
    Talk talk = {
        .before = "",
        .after = "|--seed=1|--max-tokens=4|--threads=2|--context=256|--jsonl|--parallel=2",
        .input = "{\"turns\":[\"Hello there.\",\"And of Italy?\"]}\n"
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"sampling\":{\"temperature\":0}}\n"
                 "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                 "{\"role\":\"user\",\"content\":\"Hi\"}]}\n"
                 "{\"turns\":[\"x\"],\"sampling\":{\"max_tokens\":2,\"stop\":[\"q\"]}}\n"};
    run_faults(&talk, take_lines, judge_lines);
    for (int i = 1; i <= N_LINES; i++) free(talk.answers[i]);
}

// ---- what is printed ----------------------------------------------------------------------------------------------

static const char *take_printed(void *user, const BatchRun *run) {
    Talk *talk = user;
    if (run->status) return "it should go well";
    talk->out = strdup(run->out);
    return NULL;
}

static const char *judge_printed(void *user, const BatchRun *run) {
    const Talk *talk = user;
    if (run->status > 5) return "a crash";
    if (run->status && !strstr(run->err, "palaver: ")) return "no message";
    return !run->status && strcmp(run->out, talk->out) != 0 ? "success, and another text" : NULL;
}

static void test_tools(void **state) {
    (void)state;
    char converted[2 * ROOM], *text = realpath("tests/golden/kernels_dequant.txt", NULL);
    assert_non_null(text);
    snprintf(converted, sizeof converted, "|%s|--weights=int8|--head=int8|--threads=2|--context=256", text);
    free(text);
    Talk tools[] = {{.before = "inspect|", .after = "", .input = ""},
                    {.before = "tokenize|", .after = "|Hello there", .input = ""},
                    {.before = "perplexity|", .after = converted, .input = ""}};
    for (int i = 0; i < 3; i++) {
        run_faults(&tools[i], take_printed, judge_printed);
        free(tools[i].out);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_script), cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_tools)};
    return test_main("faults", argc, argv, tests);
}
