// The C++ libraries under a limit of memory, from none to enough: the wrappers give a Status, and nothing aborts.
#include "tests/support/test.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/toml.h"
#include "tests/support/model/tokenizer_golden.h"

// operator new and delete for the whole program, libraries included.
void *plain_new(size_t size) __asm__("_Znwm");
void *array_new(size_t size) __asm__("_Znam");
void plain_delete(void *pointer) __asm__("_ZdlPv");
void array_delete(void *pointer) __asm__("_ZdaPv");
void sized_delete(void *pointer, size_t size) __asm__("_ZdlPvm");
void sized_array_delete(void *pointer, size_t size) __asm__("_ZdaPvm");
void *nothrow_new(size_t size, const void *tag) __asm__("_ZnwmRKSt9nothrow_t");
_Noreturn void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv");

static size_t limit = SIZE_MAX, live; // bytes

void *nothrow_new(size_t size, const void *tag) {
    (void)tag;
    if (size > limit || live > limit - size) return NULL;
    void *memory = malloc(size ? size : 1);
    if (memory) live += malloc_usable_size(memory);
    return memory;
}

void *plain_new(size_t size) {
    void *memory = nothrow_new(size, NULL);
    if (!memory) throw_bad_alloc();
    return memory;
}

void *array_new(size_t size) {
    return plain_new(size);
}

void plain_delete(void *pointer) {
    if (pointer) live -= malloc_usable_size(pointer);
    free(pointer);
}

void array_delete(void *pointer) {
    plain_delete(pointer);
}

void sized_delete(void *pointer, size_t size) {
    (void)size;
    plain_delete(pointer);
}

void sized_array_delete(void *pointer, size_t size) {
    (void)size;
    plain_delete(pointer);
}

// Runs `work` with more and more memory beside what is taken already, until it passes: under the limit that does, too,
// there are as many ways to run short as there are allocations.
static void check_each(Status (*work)(Error *error)) {
    int64_t failed = 0;
    for (size_t room = 1;; room += 1 + room / 8) {
        Error error = {0};
        limit = live + room;
        Status status = work(&error);
        limit = SIZE_MAX;
        if (!status) break;
        failed++;
        if (status != STATUS_MEMORY) fail_msg("with %zu bytes: %s", room, error.message);
    }
    assert_true(failed > 50);
}

static Status open_and_encode(const char *name, Error *error) {
    static const char text[] = "Hello world, don't! \u4e00\xff <keep> 123";
    char path[256];
    Tokenizer *tokenizer = NULL;
    Tokens tokens = {0};
    snprintf(path, sizeof path, GOLDEN_TOKENIZERS "/%s", name);
    Status status = tokenizer_open_folder(path, &tokenizer, error);
    if (!status) status = tokenizer_encode(tokenizer, text, sizeof text - 1, true, &tokens, error);
    tokens_free(&tokens);
    tokenizer_close(tokenizer);
    return status;
}

static Status use_bpe(Error *error) {
    return open_and_encode("sp-bpe", error);
}

static Status use_unigram(Error *error) {
    return open_and_encode("sp-unigram", error);
}

static Status use_toml(Error *error) {
    static const char text[] =
        "a = 1\n[table]\nb.c = [1, \"two\", {three = 3.0}]\nd = \"\"\"a long text that needs "
        "memory of its own\"\"\"\n[[list]]\ne = 2026-01-01\n[[list]]\nf = true\n";
    TomlNode *root = NULL;
    Status status = toml_parse("text", text, sizeof text - 1, &root, error);
    toml_free(root);
    return status;
}

static Status use_bad_toml(Error *error) {
    TomlNode *root = NULL;
    Status status = toml_parse("text", "a = [1, {b = 'c' d", 18, &root, error);
    toml_free(root);
    return status == STATUS_FILE ? STATUS_OK : status;
}

static void sentencepiece_without_memory(void **state) {
    (void)state;
    check_each(use_bpe);
    check_each(use_unigram);
}

static void toml_without_memory(void **state) {
    (void)state;
    check_each(use_toml);
    check_each(use_bad_toml);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_without_memory),
        cmocka_unit_test(toml_without_memory),
    };
    return test_main("allocations", argc, argv, tests);
}
