/* SPDX-License-Identifier: MIT
 *
 * What sample/storm loads and unloads: stacks that have this in them, and exceptions through it.
 */
#include <stdexcept>
#include <string>

static void throw_from(int depth) {
    if (depth == 0)
        throw std::runtime_error(std::string(100, 'x'));
    throw_from(depth - 1);
}

extern "C" void *storm_call(void *(*allocate)()) {
    try {
        throw_from(5);
    } catch (const std::exception &) {
    }
    void *volatile block = allocate();
    return block;
}
