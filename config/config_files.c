// Where files of settings are.
#include "config/config_internal.h"
#include "kernels/base/path.h"

#include <string.h>
#include <unistd.h>

Status config_apply_file(Config *config, ConfigLayer layer, const char *path, Error *error) {
    TomlNode *root;
    Status status = toml_parse_file(path, &root, error);
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
