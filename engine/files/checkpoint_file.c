// Files and folders under a Checkpoint: mapping, JSON, paths.
#include "engine/files/checkpoint_internal.h"
#include "kernels/base/array.h"
#include "kernels/base/file.h"

#include "engine/files/mapped.h"
#include "kernels/base/text/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_JSON_BYTES = 64 << 20 }; // parsed JSON takes many times its text

Status checkpoint_file_map(const char *path, CheckpointFile *file, Error *error) {
    *file = (CheckpointFile){0};
    int fd;
    int64_t size;
    Status status = file_open_regular(path, &fd, &size, NULL, error);
    if (status) return status;
    status = file_check_fetched(path, fd, size, error);
    if (!status && size > 0) {
        void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            status = error_set(error, errno == ENOMEM ? STATUS_MEMORY : STATUS_FILE,
                               "%s: cannot map %lld bytes: %s", path, (long long)size, strerror(errno));
        } else {
            file->data = data;
            file->size = (size_t)size;
            file->mapped = true;
            if (fstat(fd, &file->facts)) file->facts = (struct stat){0}; // then nothing is known
        }
    }
    close(fd);
    if (status) return status;
    file->path = strdup(path);
    if (!file->path || (file->mapped && !mapped_enter(file->data, file->size, file->path))) {
        checkpoint_file_unmap(file);
        return error_set(error, STATUS_MEMORY, "%s: out of memory", path);
    }
    return STATUS_OK;
}

// A file that was replaced by another one is still there as it was, for as long as it is mapped.
static bool was_changed(const CheckpointFile *file) {
    struct stat now;
    if (!file->mapped || stat(file->path, &now)) return false;
    const struct stat *then = &file->facts;
    return now.st_dev == then->st_dev && now.st_ino == then->st_ino &&
           (now.st_size != then->st_size || now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != then->st_mtim.tv_nsec);
}

Status checkpoint_check_files(const Checkpoint *checkpoint, Error *error) {
    for (int i = 0; i < checkpoint->n_files; i++)
        if (was_changed(&checkpoint->files[i]))
            return error_set(error, STATUS_FILE,
                             "%s: another program has changed this file while it was in use: the model has "
                             "to be opened again",
                             checkpoint->files[i].path);
    return STATUS_OK;
}

void checkpoint_file_unmap(CheckpointFile *file) {
    if (file->mapped) {
        mapped_leave(file->data);
        munmap((void *)file->data, file->size);
    }
    free(file->path);
    *file = (CheckpointFile){0};
}

Status checkpoint_add_file(Checkpoint *checkpoint, CheckpointFile *file, int *index, Error *error) {
    if (!array_reserve(&checkpoint->files, sizeof *checkpoint->files, (size_t)checkpoint->n_files, 1,
                       &checkpoint->files_capacity)) {
        error_set(error, STATUS_MEMORY, "%s: out of memory", file->path);
        checkpoint_file_unmap(file);
        return STATUS_MEMORY;
    }
    *index = checkpoint->n_files++;
    checkpoint->files[*index] = *file;
    *file = (CheckpointFile){0};
    return STATUS_OK;
}

Status checkpoint_folder_json(const Checkpoint *checkpoint, const char *name, json_t **value, Error *error) {
    *value = NULL;
    char *path = path_join(checkpoint->path, name);
    if (!path) return error_set(error, STATUS_MEMORY, "%s: out of memory", name);
    Status status = STATUS_OK;
    if (access(path, F_OK) == 0) {
        CheckpointFile file;
        status = checkpoint_file_map(path, &file, error);
        if (!status && file.size > MAX_JSON_BYTES) {
            status = error_set(error, STATUS_FILE, "%s: %zu bytes of JSON; palaver reads up to %d", path,
                               file.size, MAX_JSON_BYTES);
            checkpoint_file_unmap(&file);
        } else if (!status) {
            status = json_parse_python(path, (const char *)file.data, file.size, value, error);
            checkpoint_file_unmap(&file);
        }
    }
    free(path);
    return status;
}

char *checkpoint_only_file(const char *folder, const char *suffix, int *count) {
    *count = 0;
    DIR *directory = opendir(folder);
    if (!directory) return NULL;
    char *found = NULL;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.' || !text_has_suffix(entry->d_name, suffix)) continue;
        if (++*count == 1) found = path_join(folder, entry->d_name);
    }
    closedir(directory);
    if (*count == 1) return found;
    free(found);
    return NULL;
}
