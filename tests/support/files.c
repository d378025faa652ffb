#include "tests/support/files.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void bytes_add(Bytes *bytes, const void *data, size_t size) {
    if (bytes->size + size > bytes->capacity) {
        bytes->capacity = (bytes->size + size) * 2;
        bytes->data = realloc(bytes->data, bytes->capacity);
        assert_non_null(bytes->data);
    }
    if (size > 0) memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void bytes_zeros(Bytes *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) bytes_add(bytes, "", 1);
}

void bytes_u32(Bytes *bytes, uint32_t value) {
    bytes_add(bytes, &value, sizeof value);
}

void bytes_u64(Bytes *bytes, uint64_t value) {
    bytes_add(bytes, &value, sizeof value);
}

void bytes_text(Bytes *bytes, const char *text) {
    bytes_add(bytes, text, strlen(text));
}

void bytes_free(Bytes *bytes) {
    free(bytes->data);
    *bytes = (Bytes){0};
}

Bytes bytes_of_file(const char *path) {
    Bytes bytes = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("%s is missing", path);
    uint8_t buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) bytes_add(&bytes, buffer, n);
    fclose(file);
    return bytes;
}

char *text_of_file(const char *path) {
    Bytes bytes = bytes_of_file(path);
    bytes_add(&bytes, "", 1);
    return (char *)bytes.data;
}

char *folder_new(void) {
    const char *parent = getenv("TMPDIR");
    char *folder = NULL;
    if (asprintf(&folder, "%s/palaver-test-XXXXXX", parent != NULL ? parent : "/tmp") < 0) fail();
    assert_non_null(mkdtemp(folder));
    return folder;
}

void folder_write(const char *folder, const char *name, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

void folder_write_text(const char *folder, const char *name, const char *text) {
    folder_write(folder, name, text, strlen(text));
}

void folder_copy(const char *folder, const char *name, const char *from) {
    Bytes bytes = bytes_of_file(from);
    folder_write(folder, name, bytes.data, bytes.size);
    bytes_free(&bytes);
}

void folder_remove(char *folder) {
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    closedir(directory);
    rmdir(folder);
    free(folder);
}

// ---- safetensors ----------------------------------------------------------------------------------------

Bytes safetensors_of(const char *header, size_t data_size) {
    Bytes bytes = {0};
    bytes_u64(&bytes, strlen(header));
    bytes_text(&bytes, header);
    for (size_t i = 0; i < data_size; i++) bytes_add(&bytes, &(uint8_t){(uint8_t)i}, 1);
    return bytes;
}

int folder_set_up(void **state) {
    *state = folder_new();
    return 0;
}
int folder_tear_down(void **state) {
    folder_remove(*state);
    return 0;
}
