/* SPDX-License-Identifier: MIT
 *
 * Gives a fuzz target the inputs of a corpus, one after the other: replay FILE_OR_DIRECTORY...
 */
#include "check.h"
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

enum { INPUT_MAX = 1 << 20, PATH_BYTES = 4096 };

static unsigned count;

static void replay_file(const char *path) {
    static uint8_t data[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    CHECK_SAY(file != NULL, "%s", path);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    CHECK_SAY(LLVMFuzzerTestOneInput(data, size) == 0, "%s", path);
    count++;
}

static void replay(const char *path) {
    struct stat about;
    CHECK_SAY(stat(path, &about) == 0, "%s", path);
    if (!S_ISDIR(about.st_mode)) {
        replay_file(path);
        return;
    }
    DIR *directory = opendir(path);
    CHECK_SAY(directory != NULL, "%s", path);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char name[PATH_BYTES];
        int length = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        CHECK(length > 0 && (size_t)length < sizeof name);
        if (entry->d_name[0] != '.')
            replay_file(name);
    }
    closedir(directory);
}

int main(int argc, char **argv) {
    CHECK(LLVMFuzzerTestOneInput(NULL, 0) == 0);
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    CHECK_SAY(count > 0, "no input in %s", argc > 1 ? argv[1] : "no argument");
    test_say("%u inputs\n", count);
    return CHECK_PASS;
}
