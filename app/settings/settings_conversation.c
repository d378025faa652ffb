#include "app/settings/settings_conversation.h"

#include "app/terminal/encoding.h"
#include "kernels/base/file.h"
#include "kernels/base/path.h"
#include "kernels/base/text/quote.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// A token id in digits, or the text of one token.
static Status find_token(const Tokenizer *tokenizer, const char *name, int32_t *id, Error *error) {
    char *end;
    long long number = strtoll(name, &end, 10);
    if (end != name && !*end) {
        *id = (int32_t)number;
        if (number >= 0 && number < tokenizer_size(tokenizer)) return STATUS_OK;
        return error_set(error, STATUS_USAGE, "logit_bias: token %s is not in the vocabulary (0 to %lld)",
                         name, (long long)tokenizer_size(tokenizer) - 1);
    }
    if ((*id = tokenizer_find(tokenizer, name)) >= 0) return STATUS_OK;
    Tokens tokens = {0};
    Status status = tokenizer_encode(tokenizer, name, strlen(name), false, &tokens, error);
    if (!status && tokens.n != 1)
        status = error_set(error, STATUS_USAGE, "logit_bias: \"%s\" is %lld tokens; a bias needs one",
                           quote(name).text, (long long)tokens.n);
    if (!status) *id = tokens.ids[0];
    tokens_free(&tokens);
    return status;
}

static Status make_biases(const ConfigBiases *from, const Tokenizer *tokenizer, SamplerBias **made,
                          Error *error) {
    SamplerBias *biases = calloc(from->count + 1, sizeof *biases);
    if (!biases) return error_set(error, STATUS_MEMORY, "out of memory");
    for (size_t i = 0; i < from->count; i++) {
        biases[i].bias = (float)from->items[i].bias;
        if (!find_token(tokenizer, from->items[i].token, &biases[i].id, error)) continue;
        free(biases);
        return error->status;
    }
    free(*made);
    *made = biases;
    return STATUS_OK;
}

// ---- grammars -------------------------------------------------------------------------------------------------------

void settings_made_free(SettingsMade *made) {
    free(made->biases);
    grammar_close(made->grammar);
    *made = (SettingsMade){0};
}

Status settings_grammar(GrammarKind kind, const char *text, size_t size, Grammar **grammar, Error *error) {
    Grammar *compiled;
    if (grammar_is(*grammar, kind, text, size)) return STATUS_OK;
    Status status = grammar_compile(kind, text, size, &compiled, error);
    if (status) return status;
    grammar_close(*grammar);
    *grammar = compiled;
    return STATUS_OK;
}

// Whether the value is the grammar itself, not a file's name.
static bool is_grammar(GrammarKind kind, const char *value) {
    if (kind == GRAMMAR_JSON_SCHEMA) return value[strspn(value, " \t\r\n")] == '{';
    return strstr(value, "::=") != NULL;
}

Status settings_take_piped(const ConfigKey *key, const char *value, char **text, Error *error) {
    const bool schema = key == settings_key("sampling.json_schema");
    const GrammarKind kind = schema ? GRAMMAR_JSON_SCHEMA : GRAMMAR_GBNF;
    struct stat facts;
    size_t size;
    *text = NULL;
    if (!schema && key != settings_key("sampling.grammar")) return STATUS_OK;
    if (is_grammar(kind, value) || stat(value, &facts) || S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode))
        return STATUS_OK;
    if (file_read(value, GRAMMAR_MOST_BYTES, text, &size, error))
        return error_prefix(error, "%s: ", key->name);
    encoding_drop_mark(*text, &size);
    if (is_grammar(kind, *text) && strlen(*text) == size) return STATUS_OK;
    free(*text);
    *text = NULL;
    return error_set(error, STATUS_USAGE, "%s: %s: %s", key->name, value,
                     schema ? "what comes through a pipe begins with {" : "no grammar came through the pipe");
}

static Status grammar_from(GrammarKind kind, const char *path, Grammar **grammar, Error *error) {
    char *text;
    size_t size;
    char whole[PATH_ROOM];
    if (is_grammar(kind, path)) return settings_grammar(kind, path, strlen(path), grammar, error);
    path = path_in_home(path, whole);
    if (file_read(path, GRAMMAR_MOST_BYTES, &text, &size, error)) return error->status;
    encoding_drop_mark(text, &size);
    Status status = settings_grammar(kind, text, size, grammar, error);
    free(text);
    return status ? error_prefix(error, "%s: ", path) : STATUS_OK;
}

static Status make_grammar(const Settings *settings, Grammar **grammar, Error *error) {
    const char *gbnf = settings->sampling.grammar, *regex = settings->sampling.regex;
    const char *schema = settings->sampling.json_schema;
    if ((*gbnf != 0) + (*regex != 0) + (*schema != 0) > 1)
        return error_set(error, STATUS_USAGE, "of grammar, regex and json_schema only one can be set");
    if (*gbnf && grammar_from(GRAMMAR_GBNF, gbnf, grammar, error)) return error_prefix(error, "grammar: ");
    if (*schema && grammar_from(GRAMMAR_JSON_SCHEMA, schema, grammar, error))
        return error_prefix(error, "json_schema: ");
    if (*regex && settings_grammar(GRAMMAR_REGEX, regex, strlen(regex), grammar, error))
        return error_prefix(error, "regex: ");
    if (*gbnf || *regex || *schema) return STATUS_OK;
    grammar_close(*grammar);
    *grammar = NULL;
    return STATUS_OK;
}

Status settings_conversation(const Settings *settings, const Tokenizer *tokenizer, SettingsMade *with,
                             ConversationSettings *to, Error *error) {
    const ConfigBiases *named = &settings->sampling.logit_bias;
    ConversationSettings made = settings->talk;
    if (make_grammar(settings, &with->grammar, error)) return error->status;
    if (make_biases(named, tokenizer, &with->biases, error)) return error->status;
    made.sampler.logit_bias = with->biases;
    made.sampler.n_logit_bias = (int)named->count;
    made.grammar = with->grammar;
    made.stop = (const char *const *)settings->sampling.stop.items;
    made.n_stop = (int)settings->sampling.stop.count;
    made.seed = to->seed;
    made.stream = to->stream;
    made.position = to->position;
    *to = made;
    return STATUS_OK;
}
