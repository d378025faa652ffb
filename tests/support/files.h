// Files for tests: bytes that grow, whole files, folders that come and go.
#ifndef PALAVER_TESTS_FILES_H
#define PALAVER_TESTS_FILES_H

#include <stddef.h>
#include <stdint.h>

// Failures in here end the test that called.
typedef struct Bytes {
    uint8_t *data;
    size_t size, capacity;
} Bytes; // {0} is empty

void bytes_add(Bytes *bytes, const void *data, size_t size);
void bytes_zeros(Bytes *bytes, size_t size);
void bytes_u32(Bytes *bytes, uint32_t value); // little-endian, as all of these
void bytes_u64(Bytes *bytes, uint64_t value);
void bytes_text(Bytes *bytes, const char *text); // without its NUL
void bytes_free(Bytes *bytes);

Bytes bytes_of_file(const char *path);
char *text_of_file(const char *path); // NUL-terminated, to free()

// A new folder under TMPDIR; freed and removed with all files in it by folder_remove().
char *folder_new(void);
void folder_write(const char *folder, const char *name, const void *data, size_t size);
void folder_write_text(const char *folder, const char *name, const char *text);
void folder_copy(const char *folder, const char *name, const char *from); // the file at `from`
void folder_remove(char *folder);
// The same before and after a test: its state is the folder.
int folder_set_up(void **state);
int folder_tear_down(void **state);

// ---- safetensors ----------------------------------------------------------------------------------------

// The length and text of a header, then `data_size` bytes 0, 1, 2, …
Bytes safetensors_of(const char *header, size_t data_size);

// What Git leaves in the place of a large file where it lacks git-lfs.
#define LFS_POINTER                                                                                          \
    "version https://git-lfs.github.com/spec/v1\n"                                                           \
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

#endif
