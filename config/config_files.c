// Where files of settings are.
#include "config/config_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/path.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Status config_apply_file(Config *config, ConfigLayer layer, const char *path, Error *error) {
    TomlNode *root;
    Status status = toml_parse_file(path, &root, error);
    return status ? status : config_apply_tree(config, layer, path, root, error);
}

Status config_apply_named_file(Config *config, ConfigLayer layer, const char *path, Error *error) {
    struct stat facts;
    char whole[PATH_ROOM];
    path = path_in_home(path, whole);
    if (stat(path, &facts) || S_ISREG(facts.st_mode)) return config_apply_file(config, layer, path, error);
    char *text;
    size_t size;
    TomlNode *root;
    Status status = file_read(path, TOML_MAX_BYTES, &text, &size, error);
    if (status) return status;
    status = toml_parse(path, text, size, &root, error);
    free(text);
    return status ? status : config_apply_tree(config, layer, path, root, error);
}

Status config_default_model_path(char *path, Error *error) {
    return path_config("default-model.toml", path, error);
}

Status config_apply_user_files(Config *config, Error *error) {
    static const char *const names[] = {"default-model.toml", "palaver.toml"};
    char path[PATH_ROOM];
    Error ignored; // without a home there are none
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++)
        if (!path_config(names[i], path, &ignored) && !access(path, F_OK))
            status = config_apply_file(config, CONFIG_FILES, path, error);
    if (status && strstr(path, names[0]))
        (void)error_prefix(error, "the file that palaver use has written (remove it, if nothing else): ");
    if (!status && !access("palaver.toml", F_OK))
        status = config_apply_file(config, CONFIG_FILES, "palaver.toml", error);
    return status;
}
