/* SPDX-License-Identifier: MIT
 *
 * What tells of memory pressure: a pipe, a stream socket; and what is not watched: /dev/null, directories, nothing at
 * all. Another thread ends the waiting.
 */
#include "check.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char directory[] = "/tmp/hakmem-watch-XXXXXX";
static char path[128];

static const char *named(const char *name) {
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void a_pipe(void) {
    sys_watch_t watch;
    CHECK(mkfifo(named("pipe"), 0600) == 0);
    CHECK(sys_watch_open(&watch, path, "some", 4));
    CHECK(sys_watch_wait(&watch, UINT32_MAX)); /* what was written first */
    CHECK_EQ(sys_watch_wait(&watch, 10), SYS_WATCH_QUIET);
    int end = open(path, O_WRONLY);
    CHECK(write(end, "!", 1) == 1);
    CHECK(sys_watch_wait(&watch, UINT32_MAX));
    close(end);
    sys_watch_close(&watch);
    CHECK(unlink(path) == 0);
}

static int listener(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, named("socket"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 4) == 0);
    return fd;
}

static void a_socket(void) {
    sys_watch_t watch;
    char text[8] = "";
    int listens = listener();
    CHECK(sys_watch_open(&watch, path, "some", 4));
    int peer = accept(listens, NULL, NULL);
    CHECK(peer >= 0 && read(peer, text, sizeof text) == 4 && memcmp(text, "some", 4) == 0);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(write(peer, "0123456789", 10) == 10);
        CHECK(sys_watch_wait(&watch, UINT32_MAX));
    }
    close(peer); /* the last event is the end */
    CHECK(!sys_watch_wait(&watch, UINT32_MAX));
    long fd = watch.file.fd;
    sys_watch_close(&watch);
    CHECK(fcntl((int)fd, F_GETFD) < 0);
    sys_watch_close(&watch);
    /* Nobody listens any more. */
    close(listens);
    CHECK(!sys_watch_open(&watch, path, "some", 4));
    CHECK(unlink(path) == 0);
}

/* The program closed our descriptor, and its number is another file now. */
static void taken_away(void) {
    sys_watch_t watch;
    int listens = listener();
    CHECK(sys_watch_open(&watch, path, NULL, 0));
    int other = open("/dev/zero", O_RDONLY);
    CHECK(dup2(other, (int)watch.file.fd) >= 0);
    CHECK(!sys_watch_wait(&watch, UINT32_MAX));
    long fd = watch.file.fd;
    sys_watch_close(&watch);
    CHECK(fcntl((int)fd, F_GETFD) >= 0);
    close(listens);
}

static void *wait_in_thread(void *watch) { return sys_watch_wait(watch, UINT32_MAX) != SYS_WATCH_OVER ? watch : NULL; }

static void cancelled(void) {
    sys_watch_t watch;
    pthread_t thread;
    void *event = &watch;
    CHECK(mkfifo(named("quiet"), 0600) == 0 && sys_watch_open(&watch, path, NULL, 0));
    CHECK(pthread_create(&thread, NULL, wait_in_thread, &watch) == 0);
    usleep(20000);
    sys_watch_cancel(&watch);
    CHECK(pthread_join(thread, &event) == 0 && event == NULL);
    CHECK(!sys_watch_wait(&watch, UINT32_MAX));
    long bell = watch.bell.fd;
    sys_watch_close(&watch);
    CHECK(fcntl((int)bell, F_GETFD) < 0);
}

static void not_watched(void) {
    sys_watch_t watch;
    CHECK(!sys_watch_open(&watch, "/dev/null", "some", 4));
    CHECK(!sys_watch_open(&watch, directory, NULL, 0));
    CHECK(!sys_watch_open(&watch, named("nothing"), NULL, 0));
    char longer[400];
    memset(longer, 'x', sizeof longer);
    memcpy(longer, directory, strlen(directory));
    longer[strlen(directory)] = '/';
    longer[sizeof longer - 1] = '\0';
    CHECK(!sys_watch_open(&watch, longer, NULL, 0));
}

int main(void) {
    alarm(600);
    CHECK(mkdtemp(directory) != NULL);
    a_pipe();
    a_socket();
    taken_away();
    cancelled();
    not_watched();
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", directory);
    CHECK(system(command) == 0);
    return CHECK_PASS;
}
