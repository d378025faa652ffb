// Where files of settings are.
#include "config/config_internal.h"
#include "kernels/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Status config_apply_file(Config *config, ConfigLayer layer, const char *path, Error *error) {
    TomlNode *root;
    Status status = toml_parse_file(path, &root, error);
    return status ? status : config_apply_tree(config, layer, path, root, error);
}

// A file of the user's into path [PATH_ROOM]; false when there is neither XDG_CONFIG_HOME nor HOME, or it is too long.
static bool user_path(const char *name, char *path) {
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = 0;
    if (folder && *folder == '/')
        length = snprintf(path, PATH_ROOM, "%s/palaver/%s", folder, name);
    else if (home && *home)
        length = snprintf(path, PATH_ROOM, "%s/.config/palaver/%s", home, name);
    return length > 0 && length < PATH_ROOM;
}

Status config_default_model_path(char *path, Error *error) {
    if (user_path("default-model.toml", path)) return STATUS_OK;
    return error_set(error, STATUS_FILE, "no folder for settings: set HOME or XDG_CONFIG_HOME");
}

Status config_apply_user_files(Config *config, Error *error) {
    static const char *const names[] = {"default-model.toml", "palaver.toml"};
    char path[PATH_ROOM];
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++)
        if (user_path(names[i], path) && !access(path, F_OK))
            status = config_apply_file(config, CONFIG_FILES, path, error);
    if (status && strstr(path, names[0]))
        (void)error_prefix(error, "the file that palaver use has written (remove it, if nothing else): ");
    if (!status && !access("palaver.toml", F_OK))
        status = config_apply_file(config, CONFIG_FILES, "palaver.toml", error);
    return status;
}
