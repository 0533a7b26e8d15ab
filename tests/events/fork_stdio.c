/* SPDX-License-Identifier: MIT
 *
 * fork beside stdio: one thread flushes all streams, which holds the lock of their list and waits for each; others are
 * in malloc while they hold a stream (getline); and the main thread forks, which takes malloc's locks and that of the
 * list. Nobody waits for ever, and the children use both.
 */
#include "testing.h"

#include <stdatomic.h>
#include <sys/wait.h>

enum { FORKS = 100, READERS = 2, OPENERS = 1, LINE_BYTES = 50000 };

static atomic_bool over;

static void *flush_all(void *unused) {
    (void)unused;
    while (!atomic_load(&over))
        CHECK(fflush(NULL) == 0);
    return NULL;
}

static void *read_lines(void *unused) {
    (void)unused;
    FILE *file = tmpfile();
    CHECK(file != NULL);
    for (int i = 0; i < LINE_BYTES; i++)
        fputc('x', file);
    while (!atomic_load(&over)) {
        char *line = NULL;
        size_t size = 0;
        rewind(file);
        CHECK(getline(&line, &size, file) == LINE_BYTES);
        free(line);
    }
    CHECK(fclose(file) == 0);
    return NULL;
}

static void *open_and_close(void *unused) {
    (void)unused;
    while (!atomic_load(&over)) {
        FILE *file = fopen("/dev/null", "w");
        CHECK(file != NULL && fputs("text", file) >= 0 && fclose(file) == 0);
    }
    return NULL;
}

/* No flush of all streams here: it would move the files' positions, which parent and child share. */
static void in_child(void) {
    test_alarm(20);
    FILE *file = fopen("/dev/null", "w");
    bool good = file != NULL && fprintf(file, "%p", malloc(1000)) > 0 && fclose(file) == 0;
    _exit(good ? 0 : 1);
}

int main(void) {
    test_alarm(100);
    pthread_t threads[1 + READERS + OPENERS];
    unsigned count = 0;
    threads[count++] = test_thread(flush_all, NULL);
    for (unsigned i = 0; i < READERS; i++)
        threads[count++] = test_thread(read_lines, NULL);
    for (unsigned i = 0; i < OPENERS; i++)
        threads[count++] = test_thread(open_and_close, NULL);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            in_child();
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_SAY(status == 0, "status %x", (unsigned)status);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < count; i++)
        test_join(threads[i]);
    CHECK_HEAP();
    return TEST_PASS;
}
