// Stores of models as other programs have them, in a home of its own.
#ifndef PALAVER_TESTS_STORES_H
#define PALAVER_TESTS_STORES_H

// What lies in them is linked to small models of tests/golden.
#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define OTHER "89abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" // of what Ollama has
#define GGUF "tests/golden/models/qwen2.gguf"
#define FOLDER "tests/golden/models/llama"

// As cmocka wants it; torn down by program_tear_down(). *state is the home's path.
int stores_set_up(void **state);

// The path of `tail` in that home, whose folder is there from now on; good until the next call.
char *stores_path(const char *home, const char *tail);
void stores_put_text(const char *home, const char *tail, const char *text);
// What lies at `tail` is the file or folder at `from` of the working folder.
void stores_put(const char *home, const char *tail, const char *from);

#endif
