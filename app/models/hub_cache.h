// Where Hugging Face's programs keep what they fetched.
#ifndef PALAVER_APP_HUB_CACHE_H
#define PALAVER_APP_HUB_CACHE_H

#include "kernels/base/status.h"

#include <stdbool.h>

enum { HUB_CACHE_COMMIT = 64 }; // most digits of a commit

// $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, whether it is there or not,
// into path [PATH_ROOM]. STATUS_FILE: no home folder is known.
Status hub_cache_folder(char *path, Error *error);

// The commit that refs/REF of a repository's folder names. False: there is no such ref.
bool hub_cache_commit(const char *folder, const char *ref, char commit[HUB_CACHE_COMMIT + 1]);

#endif
