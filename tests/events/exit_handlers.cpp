// SPDX-License-Identifier: MIT
//
// After main: atexit and on_exit handlers, destructors of static objects and of the program, while other threads are
// still allocating. Everything must work to the very end and the exit status must be what the program asked for.
#include "testing.h"

#include <sys/wait.h>

#include <string>
#include <vector>

static void *carried;

static void work() {
    std::vector<std::string> lines;
    for (int i = 0; i < 200; i++)
        lines.push_back(std::string(static_cast<std::size_t>(i * 7 % 300), 'z'));
    for (size_t size = 1; size < 4 * TEST_MIB; size *= 3)
        free(malloc(size));
}

struct object {
    std::vector<int> *numbers = new std::vector<int>(1000);
    ~object() {
        work();
        delete numbers;
    }
};
static object early;

static void at_exit_1() {
    work();
    free(carried);
    carried = malloc(100000);
}

static void at_exit_2() {
    work();
    carried = realloc(carried, 200);
    atexit([] { work(); });
}

static void at_exit_with_argument(int, void *argument) {
    work();
    free(argument);
}

__attribute__((destructor)) static void last() {
    work();
    free(carried);
    CHECK_HEAP();
    static const char text[] = "destructor ran\n";
    CHECK(write(1, text, sizeof text - 1) > 0);
}

static void *keep_busy(void *) {
    for (;;)
        work();
}

static int child() {
    static object late;
    atexit(at_exit_1);
    atexit(at_exit_2);
    on_exit(at_exit_with_argument, malloc(3000));
    carried = malloc(50);
    pthread_detach(test_thread(keep_busy, nullptr));
    pthread_detach(test_thread(keep_busy, nullptr));
    test_sleep_us(2000);
    return 42;
}

int main(int argc, char **) {
    test_require_hakmem();
    test_alarm(60);
    if (argc > 1)
        return child();
    for (int i = 0; i < 60; i++) {
        int pipe_ends[2];
        CHECK(pipe(pipe_ends) == 0);
        pid_t pid = fork();
        if (pid == 0) {
            dup2(pipe_ends[1], 1);
            execl("/proc/self/exe", "exit_handlers", "child", nullptr);
            _exit(9);
        }
        close(pipe_ends[1]);
        char text[64] = "";
        CHECK(read(pipe_ends[0], text, sizeof text - 1) > 0);
        CHECK(strcmp(text, "destructor ran\n") == 0);
        close(pipe_ends[0]);
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == 42, "status %#x", status);
    }
    _exit(TEST_PASS); // not through `last`: the parent made no claim about its own end
}
